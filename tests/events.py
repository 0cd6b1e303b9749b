"""Typed events, from what a test says of them."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import msgspec

from harness.model import events as kinds
from harness.model.history import History, event_of
from harness.model.older import history_of_before

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.model.events import Event


def typed(told: Mapping[str, Any] | Event) -> Event:
    """Return the event that a test means. What each line of its kind has, and the test does not care
    for, is empty.

    Raises:
        AssertionError: no line of its kind has such a field.
    """
    if isinstance(told, kinds.Event):
        return told
    kind = kinds.CLASSES.get(told["event"])
    if kind is None:
        return event_of({"t": 0, **told})
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    strange = told.keys() - fields.keys() - {"event"}
    assert not strange, f"no line of the kind {told['event']} has {', '.join(sorted(strange))}"
    empty = {
        name: _empty(field.type)
        for name, field in fields.items()
        if field.required and name not in told
    }
    return event_of(msgspec.to_builtins({**empty, **told}))


def a_history(
    told: Iterable[Mapping[str, Any] | Event],
    cut: tuple[str, ...] = (),
    damage: tuple[str, ...] = (),
) -> History:
    """Return the history of these events, in their order."""
    return History(events(told), cut, damage)


def events(told: Iterable[Mapping[str, Any] | Event]) -> tuple[Event, ...]:
    """Return the events that a test means."""
    return tuple(typed(each) for each in told)


def placed(told: Iterable[Mapping[str, Any] | Event]) -> list[Event]:
    """Return the events that a test means, as a reader of their history has them."""
    return history_of_before(events(told))


def _empty(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return None if type(None) in get_args(kind) else _empty(get_args(kind)[0])
    if isinstance(kind, type) and issubclass(kind, str):
        return next(iter(kind), "") if hasattr(kind, "__members__") else ""
    return (get_origin(kind) or kind)()
