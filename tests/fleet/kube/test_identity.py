"""The name of an installation."""

from __future__ import annotations

from typing import cast

import pytest

from fleet.errors import OutsideError, Unavailable
from fleet.kube.identity import HomeUid
from fleet.model import Ref
from fleet.ports import Objects


class Home:
    """A home cluster that answers what it is told to."""

    def __init__(self) -> None:
        self.asked: list[Ref] = []
        self.answer: dict[str, object] | OutsideError = {"metadata": {"uid": "u-1"}}

    def get(self, ref):
        """The namespace."""
        self.asked.append(ref)
        if isinstance(self.answer, OutsideError):
            raise self.answer
        return self.answer


def test_it_is_asked_once_and_again_after_a_failure():
    """What is not known is an error every time, never an empty name under which everybody's machines are ours."""
    home = Home()
    name = HomeUid(cast(Objects, home), "home")
    wrong: list[dict[str, object] | OutsideError] = [
        Unavailable("The API does not answer."),
        {"metadata": {}},
    ]
    for answer in wrong:
        home.answer = answer
        with pytest.raises(Unavailable):
            name()
    home.answer = {"metadata": {"uid": "u-1"}}
    assert (name(), name()) == ("u-1", "u-1")
    assert home.asked == [Ref("home", "v1", "Namespace", "", "kube-system")] * 3
