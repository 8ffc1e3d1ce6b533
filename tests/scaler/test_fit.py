"""Whether a pod may go to a node, as the scheduler says."""

import pytest

from fleet.model import Expression, Placement, Taint, Toleration
from scaler.fit import Space, matches, misfit, times, tolerated
from tests.builders import pod, resources

LABELS = {"zone": "a", "cpus": "8"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("none", "In", ("a",), False),
        ("zone", "NotIn", ("a",), False),
        ("none", "NotIn", ("a",), True),
        ("zone", "Exists", (), True),
        ("none", "Exists", (), False),
        ("none", "DoesNotExist", (), True),
        ("zone", "DoesNotExist", (), False),
        ("cpus", "Gt", ("4",), True),
        ("cpus", "Gt", ("8",), False),
        ("cpus", "Lt", ("9",), True),
        ("zone", "Gt", ("4",), False),
        ("none", "Lt", ("4",), False),
        ("cpus", "Gt", (), False),
    ],
)
def test_expressions_match_as_in_kubernetes(key, operator, values, expected):
    """Also for keys that are missing and values that are no numbers."""
    assert matches(Expression(key, operator, values), LABELS) is expected


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "Equal", "v"), True),
        (Toleration("k", "Equal", "w"), False),
        (Toleration("k", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("k", "Exists", effect="NoExecute"), False),
        (Toleration("other", "Exists"), False),
    ],
)
def test_tolerations_cover_taints_as_in_kubernetes(toleration, expected):
    """Row 9 of the old autoscaler: the Equal operator counts, too."""
    taint = Taint("k", "v", "NoSchedule")
    assert tolerated(Placement(tolerations=(toleration,)), taint) is expected


def test_a_taint_without_a_value_and_an_odd_selector_are_no_crash():
    """Rows 5 and 6 of the old autoscaler: one unreachable node killed it."""
    unreachable = Taint("node.kubernetes.io/unreachable", "", "NoExecute")
    assert "does not tolerate" in misfit(Placement(), {}, [unreachable])
    assert misfit(Placement(), {}, [Taint("x", "", "PreferNoSchedule")]) == ""


def test_node_affinity_is_an_or_of_ands_and_an_empty_term_matches_nothing():
    """As the API documents it."""
    a, b = Expression("zone", "In", ("a",)), Expression("zone", "In", ("b",))
    assert misfit(Placement(node_affinity=((b,), (a,))), LABELS, ()) == ""
    assert "zone In b" in misfit(Placement(node_affinity=((a, b),)), LABELS, ())
    assert misfit(Placement(node_affinity=((),)), LABELS, ()) != ""
    assert "x=y" in misfit(Placement(node_selector=(("x", "y"),)), LABELS, ())


def test_how_often_a_request_fits_is_decided_by_its_scarcest_resource():
    """Pods that ask for nothing are limited by pod slots alone."""
    free = resources("4", "16Gi", gpus=2, pods=10)
    assert times(resources("1", "1Gi"), free) == 4
    assert times(resources("100m", "8Gi"), free) == 2
    assert times(resources("100m", "1Gi", gpus=1), free) == 2
    assert times(resources("0", "0"), free) == 10
    assert times(resources("5", "1Gi"), free) == 0


def test_a_space_gives_out_what_it_has_once():
    """What was added is not there any more; a copy is independent."""
    space = Space("n", "a", {}, (), resources("4", "16Gi", pods=10))
    one = pod(cpu="3")
    attempt = space.copy()
    attempt.add(one, 1)
    assert (attempt.room(one, 5), space.room(one, 5)) == (0, 1)
