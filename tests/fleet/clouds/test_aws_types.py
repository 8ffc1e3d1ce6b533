"""What an instance type offers to pods."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.clouds.aws_types import MIB, allocatable, instance_type, quota_family
from tests.fleet.clouds.stubbed import described


@pytest.mark.parametrize(
    ("vcpus", "mib", "pods", "millicores", "allocatable_mib"),
    [
        (4, 16_384, 58, 3920, 14_162),
        (192, 2_097_152, 100, 191_450, 1_938_410),
        (1, 2048 - 64, 8, 940, 1392),
        (2, 4096 - 64, 29, 1930, 3055),
    ],
    ids=["m5.xlarge", "p5.48xlarge", "a1.medium", "a1.large"],
)
def test_allocatable_of_known_machines(vcpus, mib, pods, millicores, allocatable_mib):
    """The formula gives what nodes of these types report."""
    found = allocatable(vcpus, mib, gpus=0, pods=pods)
    assert found.millicores == millicores
    assert abs(found.memory - allocatable_mib * MIB) <= MIB


@given(st.integers(1, 896), st.integers(1024, 24_576 * 1024), st.integers(4, 737))
def test_allocatable_is_less_than_the_machine(vcpus, mib, pods):
    """Whatever the size, something is kept from pods, and nothing is negative."""
    found = allocatable(vcpus, mib, gpus=0, pods=pods)
    assert 0 < found.millicores < vcpus * 1000
    assert 0 <= found.memory < mib * MIB


def test_pods_by_network():
    """Pods are limited by addresses of the default card's interfaces, else by the kubelet."""
    assert instance_type(described()).allocatable.pods == 58
    cards = [
        {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 2},
        {"NetworkCardIndex": 1, "MaximumNetworkInterfaces": 2},
    ]
    network = {
        "MaximumNetworkInterfaces": 64,
        "Ipv4AddressesPerInterface": 50,
        "DefaultNetworkCardIndex": 0,
        "NetworkCards": cards,
    }
    assert instance_type(described(NetworkInfo=network)).allocatable.pods == 100
    assert instance_type(described(NetworkInfo={})).allocatable.pods == 110


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [
        ("p5.48xlarge", [{"Name": "H100", "Manufacturer": "NVIDIA", "Count": 8}], (8, "H100")),
        ("p5.4xlarge", [{"Name": "H100", "Manufacturer": "NVIDIA", "Count": 0}], (1, "H100")),
        ("p5.4xlarge", [], (1, "H100")),
        (
            "g6f.large",
            [{"Name": "L4", "Manufacturer": "NVIDIA", "Count": 0, "LogicalGpuCount": 1}],
            (1, "L4"),
        ),
        ("g6f.large", [{"Name": "L4", "Manufacturer": "NVIDIA", "Count": 0}], (1, "L4")),
        ("g4ad.xlarge", [{"Name": "Radeon", "Manufacturer": "AMD", "Count": 1}], (0, "")),
        ("m5.xlarge", [], (0, "")),
    ],
)
def test_gpus(name, gpus, expected):
    """Types listed with no GPUs have those of the overlay; other makers' are not nvidia.com/gpu."""
    found = instance_type(described(name, GpuInfo={"Gpus": gpus}))
    assert (found.gpus, found.gpu_name) == expected
    assert found.allocatable.gpus == expected[0]


def test_arm_machines_are_labelled_and_keep_64_mib_more():
    """arm64 is another architecture to a scheduler, and a little smaller."""
    arm = instance_type(described(ProcessorInfo={"SupportedArchitectures": ["arm64"]}))
    intel = instance_type(described())
    assert (arm.arch, intel.arch) == ("arm64", "amd64")
    assert 0 < intel.allocatable.memory - arm.allocatable.memory <= 64 * MIB


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("m5.large", "Standard"), ("c7i.48xlarge", "Standard"), ("im4gn.large", "Standard"), ("z1d.large", "Standard"),
        ("p5.48xlarge", "P"), ("p6-b200.48xlarge", "P"), ("g5.xlarge", "G and VT"), ("gr6.4xlarge", "G and VT"),
        ("vt1.3xlarge", "G and VT"), ("inf2.xlarge", "Inf"), ("trn1.2xlarge", "Trn"), ("dl1.24xlarge", "DL"),
        ("f1.2xlarge", "F"), ("x2idn.16xlarge", "X"), ("u-6tb1.metal", "High Memory"),
        ("u7i-12tb.224xlarge", "High Memory"), ("hpc6a.48xlarge", "HPC"), ("d3.xlarge", "Standard"),
    ],
)  # fmt: skip
def test_quota_families(name, family):
    """Types whose vCPUs share a quota have one family."""
    assert quota_family(name) == family
