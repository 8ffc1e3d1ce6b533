"""What is sold: types, zones, subnets, regions, list prices; and the spec that says so."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from sandbox.cloud.node import node_of
from sandbox.cloud.spec import parse_spec
from sandbox.cloud.types import quota_group, type_facts


def described(sandbox, **arguments):
    """DescribeInstanceTypes by name."""
    found = sandbox.clients("ec2").describe_instance_types(**arguments)["InstanceTypes"]
    return {kind["InstanceType"]: kind for kind in found}


def test_types_carry_their_size_and_gpus(sandbox):
    """As EC2 describes them."""
    p5 = described(sandbox)["p5.48xlarge"]

    assert p5["VCpuInfo"]["DefaultVCpus"] == 192
    assert p5["MemoryInfo"]["SizeInMiB"] == 2_097_152
    (gpu,) = p5["GpuInfo"]["Gpus"]
    assert (gpu["Name"], gpu["Manufacturer"], gpu["Count"]) == ("H100", "NVIDIA", 8)


def test_interfaces_and_addresses_give_a_node_its_pods(make):
    """For every type of the snapshot: interfaces x (addresses - 1) + 2."""
    offers = {kind: {"price": "1"} for kind in type_facts()}
    sandbox = make(regions={"us-west-2": {"zones": {"us-west-2a": {"offers": offers}}}})
    pages = sandbox.clients("ec2").get_paginator("describe_instance_types").paginate()
    found = {kind["InstanceType"]: kind["NetworkInfo"] for page in pages for kind in page["InstanceTypes"]}

    assert len(found) == len(type_facts()) > 1300
    for name, network in found.items():
        interfaces, addresses = network["MaximumNetworkInterfaces"], network["Ipv4AddressesPerInterface"]
        assert interfaces * (addresses - 1) + 2 == type_facts()[name].pods, name


def test_types_can_be_asked_for_and_filtered(sandbox, refused):
    """A type that the region does not sell is refused; a filter that there is not, too."""
    ec2 = sandbox.clients("ec2")
    assert set(described(sandbox, InstanceTypes=["m5.xlarge"])) == {"m5.xlarge"}
    assert set(described(sandbox, Filters=[{"Name": "instance-type", "Values": ["p5*"]}])) == {"p5.48xlarge"}
    assert refused(ec2.describe_instance_types, InstanceTypes=["c5.large"])[0] == "InvalidInstanceType"
    wrong = refused(ec2.describe_instance_types, Filters=[{"Name": "colour", "Values": ["red"]}])
    assert wrong[0] == "InvalidParameterValue"


def test_offerings_say_which_zone_has_what(sandbox):
    """By zone, or by region."""
    ec2 = sandbox.clients("ec2")
    zones = ec2.describe_instance_type_offerings(LocationType="availability-zone")["InstanceTypeOfferings"]
    region = ec2.describe_instance_type_offerings()["InstanceTypeOfferings"]

    assert [(each["InstanceType"], each["Location"]) for each in zones] == [
        ("m5.xlarge", "us-west-2a"),
        ("m5.xlarge", "us-west-2b"),
        ("p5.48xlarge", "us-west-2a"),
    ]
    assert {each["Location"] for each in region} == {"us-west-2"}


def test_subnets_count_their_free_addresses(sandbox):
    """Each machine takes one."""
    sandbox.launch(MaxCount=3)
    found = sandbox.clients("ec2").describe_subnets(Filters=[{"Name": "subnet-id", "Values": ["subnet-a"]}])

    assert [subnet["AvailableIpAddressCount"] for subnet in found["Subnets"]] == [97]


def test_regions_and_zones_are_those_of_the_world(sandbox):
    """Four regions, each with its zones."""
    ec2 = sandbox.clients("ec2")
    regions = [region["RegionName"] for region in ec2.describe_regions()["Regions"]]
    zones = [zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]]

    assert regions == ["us-west-2", "us-east-1", "eu-west-1", "ap-northeast-1"]
    assert zones == ["us-west-2a", "us-west-2b"]


def listed(sandbox, **fields) -> dict[str, str]:
    """List prices by type and region."""
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in fields.items()]
    pages = (
        sandbox.clients("pricing", "us-east-1")
        .get_paginator("get_products")
        .paginate(ServiceCode="AmazonEC2", Filters=filters, PaginationConfig={"PageSize": 2})
    )
    prices = {}
    for product in (json.loads(text) for page in pages for text in page["PriceList"]):
        attributes = product["product"]["attributes"]
        (term,) = product["terms"]["OnDemand"].values()
        (dimension,) = term["priceDimensions"].values()
        prices[f"{attributes['regionCode']} {attributes['instanceType']}"] = dimension["pricePerUnit"]["USD"]
    return prices


def test_list_prices_are_json_in_json_and_come_in_pages(sandbox):
    """GetProducts with and without filters."""
    assert listed(sandbox, regionCode="us-west-2", marketoption="OnDemand", operatingSystem="Linux") == {
        "us-west-2 m5.xlarge": "0.1920000000",
        "us-west-2 p5.48xlarge": "55.0400000000",
    }
    assert len(listed(sandbox)) == 5
    assert listed(sandbox, operatingSystem="Windows") == {}


def test_an_on_demand_price_changes_for_the_whole_region(sandbox):
    """On the list, and for machines in each zone from that moment on."""
    sandbox.launch()
    sandbox.launch(subnet="subnet-us-west-2b")
    sandbox.pass_time(3600)
    sandbox.host.call(lambda: sandbox.cloud.set_price("us-west-2", "us-west-2a", "m5.xlarge", "0.40"))
    sandbox.pass_time(3600)
    start = sandbox.cloud.machines()[0].launched

    assert listed(sandbox, instanceType="m5.xlarge", regionCode="us-west-2") == {
        "us-west-2 m5.xlarge": "0.4000000000"
    }
    assert sandbox.cloud.spent(start, sandbox.world.now) == 2 * (Fraction("0.192") + Fraction("0.40"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"boot": 3}, "cloud: there is no 'boot'"),
        ({"regions": {"r": {"zone": {}}}}, "r: there is no 'zone'"),
        ({"regions": {"r": {"quotas": {"GPU": 1}}}}, "no quota group 'GPU'"),
        ({"regions": {"r": {"zones": {"z": {"offers": {"m5.huge": {"price": 1}}}}}}}, "no EC2 instance type"),
        (
            {"regions": {"r": {"zones": {"z": {"offers": {"m5.large": {"prize": 1}}}}}}},
            "m5.large in z: there is no 'prize'",
        ),
        (
            {
                "regions": {
                    "r": {
                        "zones": {
                            "a": {"offers": {"m5.large": {"price": "0.1"}}},
                            "b": {"offers": {"m5.large": {"price": "0.2"}}},
                        }
                    }
                }
            },
            "b: m5.large has another on-demand price",
        ),
        ({"bill": {"after": 3}}, "bill: there is no 'after'"),
    ],
)
def test_a_wrong_spec_is_refused_with_its_place(spec, words):
    """A typing mistake is never a default."""
    with pytest.raises(ValueError, match=words):
        parse_spec(spec)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("m5.xlarge", "Standard"),
        ("t3.micro", "Standard"),
        ("p5.48xlarge", "P"),
        ("g5.xlarge", "G and VT"),
        ("vt1.3xlarge", "G and VT"),
        ("trn1.2xlarge", "Trn"),
        ("inf2.xlarge", "Inf"),
        ("dl1.24xlarge", "DL"),
        ("d3.xlarge", "Standard"),
        ("u-6tb1.metal", "High Memory"),
        ("x2idn.16xlarge", "X"),
        ("hpc7a.12xlarge", "HPC"),
        ("i4i.large", "Standard"),
    ],
)
def test_types_belong_to_a_quota_group(name, group):
    """As AWS' quotas name them."""
    assert quota_group(name) == group


def test_gpus_of_other_makers_are_another_resource(sandbox):
    """A Radeon is no nvidia.com/gpu."""
    facts = type_facts()["g4ad.xlarge"]
    sandbox.launch()
    machine = sandbox.cloud.machines()[0]
    machine.kind = facts
    node = node_of(machine, sandbox.told(), None)

    assert facts.gpu_maker == "AMD"
    assert "nvidia.com/gpu" not in node["status"]["capacity"]
