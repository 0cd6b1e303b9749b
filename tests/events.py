"""Typed events, from what a test says of them."""

from __future__ import annotations

import json
import types
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

import msgspec

from harness.judge import accounting
from harness.model import events as kinds
from harness.model.history import History, encoded, event_of
from harness.model.older import history_of_before

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.judge.accounting import Account
    from harness.model.events import Event


def typed(told: Mapping[str, Any] | Event) -> Event:
    """Return the event that a test means. What each line of its kind has, and the test does not
    name, is empty.
    """
    if isinstance(told, kinds.Event):
        return told
    kind = kinds.CLASSES.get(told["event"])
    if kind is None:
        return event_of({"t": 0, **told})
    line = {name: value for name, value in told.items() if value is not None}
    return event_of(json.loads(json.dumps({**dict.fromkeys(told), **_needed(kind), **line})))


@cache
def _needed(kind: type[Event]) -> dict[str, Any]:
    """Return what each line of a kind has, empty."""
    told = msgspec.structs.fields(kind)
    return {field.encode_name: _empty(field.type) for field in told if field.required}


def whole(told: Mapping[str, Any] | Event) -> dict[str, Any]:
    """Return a line of which :func:`typed` makes an event, with all that it needs to have."""
    return plain([typed(told)])[0]


def fields(kind: str, **told: Any) -> dict[str, Any]:
    """Return the fields with which a line of a kind is written."""
    line = whole({"event": kind, **told})
    return {name: value for name, value in line.items() if name in told or name not in _HEADER}


def a_history(
    told: Iterable[Mapping[str, Any] | Event],
    cut: tuple[str, ...] = (),
    damage: tuple[str, ...] = (),
) -> History:
    """Return the history of these events, in their order."""
    return History(events_of(told), cut, damage)


def events_of(told: Iterable[Mapping[str, Any] | Event]) -> tuple[Event, ...]:
    """Return the events that a test means."""
    return tuple(typed(each) for each in told)


def placed(told: Iterable[Mapping[str, Any] | Event]) -> list[Event]:
    """Return the events that a test means, as a reader of their history has them."""
    return history_of_before(events_of(told))


def account(told: Iterable[Mapping[str, Any] | Event]) -> Account:
    """Return the account of these events."""
    return accounting.account(placed(told))


def plain(told: Iterable[Event]) -> list[dict[str, Any]]:
    """Return events as their lines have them."""
    return [
        msgspec.to_builtins(
            {"event": event.event, **_header(event)}
            | (event.fields if isinstance(event, kinds.OfUnknownKind) else fields_of(event))
        )
        for event in told
    ]


def told(event: Event) -> dict[str, Any]:
    """Return what a writer has in the line of an event besides what every line has."""
    line: dict[str, Any] = json.loads(encoded(event))
    return line


def fields_of(event: Event) -> dict[str, Any]:
    """Return all fields of an event but those of its writer, in plain JSON."""
    line = told(event)
    return _own(type(event)) | {name: line[name] for name in line if name not in _HEADER}


@cache
def _own(kind: type[Event]) -> dict[str, Any]:
    """Return the fields of a kind that a line may leave out, as they are then."""
    return {
        each.encode_name: each.default
        for each in msgspec.structs.fields(kind)
        if each.name not in _HEADER | {"facts"} and each.default is not msgspec.UNSET
    }


_HEADER: Final = {*kinds.Event.__struct_fields__, "event"}


def _header(event: Event) -> dict[str, Any]:
    return {name: getattr(event, name) for name in kinds.Event.__struct_fields__}


def _empty(kind: Any) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return None if type(None) in get_args(kind) else _empty(get_args(kind)[0])
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return next(iter(kind), "")
    if isinstance(kind, type) and issubclass(kind, str):
        return ""
    return (get_origin(kind) or kind)()
