"""Names that an engine may add to: equal ones are one object, however they come about."""

from __future__ import annotations

import copy
import json
import pickle
from typing import TYPE_CHECKING

import pytest

from harness.model.names import Name
from harness.model.prediction import Select
from harness.model.scenario import Role
from harness.stages.queries import STREAMING
from harness.stages.settings import PIPELINES

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.pipeline import Pipeline


class Colour(Name):
    """A kind of names of this test."""

    __slots__ = ()


@pytest.mark.parametrize(
    "again",
    [
        lambda name: Role(str(name)),
        copy.copy,
        copy.deepcopy,
        lambda name: pickle.loads(pickle.dumps(name)),  # noqa: S301
        lambda name: Role(json.loads(json.dumps(name))),
    ],
)
@pytest.mark.parametrize("name", [Role.PRODUCER, Role("task-manager")])
def test_an_equal_name_is_the_same_object(name: Role, again: object) -> None:
    assert callable(again)
    assert again(name) is name


def test_names_of_different_kinds_are_different_objects() -> None:
    mine: object = Colour("target")
    assert mine is not Select.TARGET
    assert isinstance(Select("target"), Select)
    assert not isinstance(Colour("target"), Select)
    assert Colour("target") == "target" == Select.TARGET


@pytest.mark.parametrize("again", [copy.deepcopy, lambda cell: pickle.loads(pickle.dumps(cell))])  # noqa: S301
@pytest.mark.parametrize("pipeline", [*PIPELINES, *STREAMING], ids=str)
def test_a_copied_pipeline_is_the_pipeline(
    pipeline: Pipeline, again: Callable[[Pipeline], Pipeline]
) -> None:
    """What is asked of it by equality is answered alike; its settings are those of the semantic
    still.
    """
    other = again(pipeline)
    assert other == pipeline
    for semantic, settings in other.recipes.items():
        settings.check(other, clustered=False)
        assert settings == pipeline.recipes[semantic]


def test_a_name_is_written_as_its_text() -> None:
    """In a message, in JSON, and as a key."""
    assert (f"{Role.BROKER}", str(Role.BROKER), json.dumps({Role.BROKER: Role.BROKER})) == (
        "broker",
        "broker",
        '{"broker": "broker"}',
    )
