"""Trials of a sweep."""

import subprocess

import pytest

from fleet.errors import BadInput
from launcher.spec import Sweep
from launcher.sweep import expand, script, scripts


def sweep(**fields):
    return Sweep(**({"params": {"a": [1, 2], "b": ["x", "y", "z"]}} | fields))


def test_a_grid_is_the_product_in_the_order_written():
    """Two by three values are six trials, the last name turning fastest."""
    trials = expand(sweep())
    assert len(trials) == 6
    assert trials[1].values == (("a", "1"), ("b", "y"))


def test_a_list_goes_through_all_names_together():
    """Three values each are three trials, not nine."""
    trials = expand(sweep(method="list", params={"a": [1, 2, 3], "b": [4, 5, 6]}))
    assert [t.values for t in trials][2] == (("a", "3"), ("b", "6"))
    with pytest.raises(BadInput, match="a 1, b 2"):
        expand(sweep(method="list", params={"a": [1], "b": [1, 2]}))


def test_random_trials_come_from_the_seed():
    """The same seed draws the same trials, another one others."""
    params = {"lr": {"log_uniform": [1e-5, 1e-1]}, "net": ["s", "b"], "d": {"uniform": [0, 1]}}
    first = expand(sweep(method="random", samples=20, params=params))
    assert first == expand(sweep(method="random", samples=20, params=params))
    assert first != expand(sweep(method="random", samples=20, params=params, seed=1))
    assert all(1e-5 <= float(t.values[0][1]) <= 1e-1 for t in first)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"params": {"a": {"range": [0, 101]}}}, "101 trials, and max_trials is 100"),
        ({"params": {"a": []}}, "is empty"),
        ({"params": {"a": "1,2"}}, "not a list"),
        ({"params": {"a": {"range": [5, 5]}}}, "holds no values"),
        ({"params": {"a": {"range": [0, 1, 0]}}}, "holds no values"),
        ({"params": {"a": {"uniform": [0, 1]}}}, "method: random"),
        ({"method": "random", "params": {"a": [1]}}, "needs samples"),
        ({"method": "random", "samples": 2, "params": {"a": {"log_uniform": [0, 1]}}}, "low first"),
        ({"params": {"a": [[1]]}}, "numbers, texts"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(fields, said):
    """Empty, endless, uneven and too large sweeps are told, not started."""
    with pytest.raises(BadInput, match=said):
        expand(sweep(**fields))


def test_ranges_are_exact_and_leave_their_end_out():
    """Steps of 0.1 are decimals, not binary fractions."""
    trials = expand(sweep(params={"a": {"range": [0, 0.4, 0.1]}}))
    assert [t.values[0][1] for t in trials] == ["0.0", "0.1", "0.2", "0.3"]


def test_values_reach_the_program_as_written_whatever_they_hold():
    """A list is quoted for the shell; only the sweep's own names are replaced."""
    (trial,) = expand(sweep(params={"text": ["it's $HOME; rm"]}))
    told = script(["printf", "%s", "--x={text} {other}"], trial)
    out = subprocess.run(["/bin/sh", "-c", told], capture_output=True, text=True, check=True).stdout
    assert out == "--x=it's $HOME; rm {other}"
    out = subprocess.run(
        ["/bin/sh", "-c", script("printf %s {text}", trial)], capture_output=True, text=True, check=True
    ).stdout
    assert out == "it's $HOME; rm"


def test_trials_that_do_not_fit_one_configmap_are_refused():
    """The API would refuse the object after half of the launch."""
    trials = expand(sweep(params={"a": {"range": [0, 20000]}}, max_trials=20000))
    with pytest.raises(BadInput, match="one ConfigMap holds 900"):
        scripts(["python", "x" * 40, "{a}"], trials)
