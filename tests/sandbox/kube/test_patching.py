"""Patches as pure functions: merge (RFC 7386), strategic merge, JSON patch (RFC 6902)."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.kube.errors import ApiError
from sandbox.kube.patching import json_patch, merge, strategic

SCALARS = st.one_of(st.booleans(), st.integers(-3, 3), st.text("ab", max_size=2))
KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=2)
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=3)
PATCHES = st.recursive(
    SCALARS | st.none(), lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
).filter(lambda value: isinstance(value, dict))


@pytest.mark.parametrize(
    ("target", "patch", "wanted"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7386(target, patch, wanted):
    """Its appendix A."""
    assert merge(target, patch) == wanted


@given(OBJECTS, PATCHES)
def test_a_merge_patch_applied_twice_is_applied_once(target, patch):
    """And neither argument is changed."""
    before = copy.deepcopy((target, patch))
    once = merge(target, patch)

    assert merge(once, patch) == once
    assert (target, patch) == before


@given(OBJECTS, PATCHES)
def test_without_keyed_lists_strategic_is_merge(target, patch):
    """Their difference is in lists and directives only; nulls in what is new are dropped by both."""
    assert strategic(target, patch) == merge(target, patch)


def test_keyed_lists_are_merged_by_their_key():
    """Containers and their variables by name, mounts by path, ports by number."""
    target = {
        "containers": [
            {
                "name": "a",
                "image": "1",
                "env": [{"name": "X", "value": "1"}],
                "ports": [{"containerPort": 1}],
            },
            {"name": "b", "image": "1"},
        ]
    }
    patch = {
        "containers": [
            {"name": "a", "env": [{"name": "Y", "value": "2"}], "ports": [{"containerPort": 1, "name": "p"}]}
        ]
    }
    found = strategic(target, patch)

    assert found["containers"][0]["image"] == "1"
    assert found["containers"][0]["env"] == [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]
    assert found["containers"][0]["ports"] == [{"containerPort": 1, "name": "p"}]
    assert found["containers"][1] == {"name": "b", "image": "1"}


def test_other_lists_are_replaced():
    """Tolerations, taints, arguments."""
    for name in ("tolerations", "taints", "args"):
        assert strategic({name: [{"key": "a"}]}, {name: [{"key": "b"}]}) == {name: [{"key": "b"}]}


def test_directives():
    """$patch replaces or deletes, $retainKeys keeps, $deleteFromPrimitiveList takes away."""
    items = {"env": [{"name": "A"}, {"name": "B"}]}

    assert strategic(items, {"env": [{"name": "A", "$patch": "delete"}]}) == {"env": [{"name": "B"}]}
    assert strategic(items, {"env": [{"$patch": "replace"}, {"name": "C"}]}) == {"env": [{"name": "C"}]}
    assert strategic({"a": {"x": 1}}, {"a": {"$patch": "replace", "y": 2}}) == {"a": {"y": 2}}
    assert strategic({"a": {"x": 1, "y": 1}}, {"a": {"$retainKeys": ["y"]}}) == {"a": {"y": 1}}
    given = {"finalizers": ["a", "b"]}
    assert strategic(given, {"$deleteFromPrimitiveList/finalizers": ["a"]}) == {"finalizers": ["b"]}


def test_an_item_without_its_key_is_an_error():
    """500, in the words of the real patch library."""
    with pytest.raises(ApiError, match=r"map\[image:x\] does not contain declared merge key: name") as caught:
        strategic({"containers": [{"name": "a"}]}, {"containers": [{"image": "x"}]})
    assert caught.value.code == 500


@pytest.mark.parametrize(
    ("operations", "wanted"),
    [
        ([{"op": "add", "path": "/b", "value": 2}], {"a": [1, 2], "b": 2}),
        ([{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}),
        ([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9]}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ([{"op": "replace", "path": "/a", "value": 0}], {"a": 0}),
        ([{"op": "replace", "path": "/a/1", "value": 0}], {"a": [1, 0]}),
        ([{"op": "move", "from": "/a", "path": "/b"}], {"b": [1, 2]}),
        ([{"op": "copy", "from": "/a/0", "path": "/b"}], {"a": [1, 2], "b": 1}),
        ([{"op": "test", "path": "/a/0", "value": 1}], {"a": [1, 2]}),
        ([{"op": "add", "path": "/x~1y~0z", "value": 1}], {"a": [1, 2], "x/y~z": 1}),
    ],
)
def test_json_patch_operations(operations, wanted):
    """All six, and escaped keys."""
    assert json_patch({"a": [1, 2]}, operations) == wanted


@pytest.mark.parametrize(
    "step",
    [
        {"op": "remove", "path": "/nope"},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "add", "path": "/a/9", "value": 2},
        {"op": "add", "path": "/no/where", "value": 2},
        {"op": "nonsense", "path": "/a"},
        {"op": "add", "path": "a", "value": 2},
    ],
)
def test_json_patch_operations_that_cannot_be_done(step):
    """422, and the document stays."""
    document = {"a": [1]}
    with pytest.raises(ApiError) as caught:
        json_patch(document, [{"op": "add", "path": "/b", "value": 1}, step])

    assert caught.value.code == 422
    assert document == {"a": [1]}
