"""Names that an engine may add to: equal ones are one object, however they come about."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from harness.model.names import Name
from harness.model.prediction import Select
from harness.model.scenario import Role


class Colour(Name):
    """A kind of names of this test."""

    __slots__ = ()


@pytest.mark.parametrize("again", [
    lambda name: Role(str(name)), copy.copy, copy.deepcopy, lambda name: pickle.loads(pickle.dumps(name)),  # noqa: S301
    lambda name: Role(json.loads(json.dumps(name))),
])  # fmt: skip
@pytest.mark.parametrize("name", [Role.PRODUCER, Role("task-manager")])
def test_an_equal_name_is_the_same_object(name: Role, again: object) -> None:
    """Faults compare roles by identity, also those that come from a saved plan."""
    assert callable(again)
    assert again(name) is name


def test_names_of_different_kinds_are_different_objects() -> None:
    """They are equal as texts, and each is of its own kind."""
    assert Colour("target") is not Select.TARGET
    assert isinstance(Select("target"), Select)
    assert not isinstance(Colour("target"), Select)
    assert Colour("target") == "target" == Select.TARGET


def test_a_name_is_written_as_its_text() -> None:
    """In a message, in JSON, and as a key."""
    assert (f"{Role.BROKER}", str(Role.BROKER), json.dumps({Role.BROKER: Role.BROKER})) == (
        "broker",
        "broker",
        '{"broker": "broker"}',
    )
