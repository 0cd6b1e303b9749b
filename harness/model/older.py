"""Turns plans and histories of earlier versions into today's form. Every saved plan and every
history is read through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.model import events as kinds
from harness.model.places import NOWHERE, Removal, in_log, waits_in_log
from harness.model.states import Hop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.events import Event

_OF_A_CLUSTER: Final = frozenset({"leader", "follower", "controller", "coordinator"})
"""Roles of a broker that the cluster itself assigns."""


def plan_of_before(data: dict[str, Any]) -> dict[str, Any]:
    """Return the content of ``cell.json`` with proofs by name. Up to version 2 the evidence had a
    field for each proof. Earlier plans also have settings of engines among those of any consumer.
    """
    consumer = data.get("settings", {}).get("consumer", {})
    if not _OF_ENGINES.keys().isdisjoint(consumer):
        now = _settings_of_before(consumer)
        data = data | {"settings": data["settings"] | {"consumer": now}}
    if "proofs" in data:
        return data
    evidence = dict(data["evidence"])
    network, engine = evidence.pop("network", None), evidence.pop("engine", ())
    restarted = evidence.pop("restarted", 0)
    fields = {name: evidence.pop(name, False) for name in _FLAGS}
    proofs: dict[str, dict[str, object]] = {}
    if network is not None:
        proofs["network-bad"] = network
    if engine:
        proofs["engine-said"] = {"words": engine}
    if restarted:
        proofs["rolled"] = {"count": restarted}
    if _OF_A_CLUSTER & set(evidence["killed"]):
        proofs["part-had"] = {}
    if evidence.get("forgotten"):
        proofs["forgot"] = {}
    return data | {
        "evidence": evidence,
        "proofs": proofs | {_FLAGS[name]: {} for name, told in fields.items() if told},
    }


def _settings_of_before(consumer: dict[str, object]) -> dict[str, object]:
    now: dict[str, Any] = {
        name: value for name, value in consumer.items() if name not in _OF_ENGINES
    }
    for name in sorted(_OF_ENGINES.keys() & consumer.keys()):
        now.setdefault(_OF_ENGINES[name], {})[name] = consumer[name]
    return now


_OF_ENGINES: Final = dict.fromkeys(
    ("executors", "per_batch", "fail_on_loss", "assigned", "listed"), "query"
) | dict.fromkeys(("mode", "blocking"), "acknowledging")
"""Settings that only consumers of one engine have, and by what name those are together today."""
_FLAGS: Final = {
    "moved": "leader-moved",
    "elected": "preferred-elected",
    "grown": "grown",
    "input_ended": "input-ended",
}


def line_of_before(line: dict[str, object]) -> dict[str, object]:
    """Return the content of a line of a history. Earlier histories have ``deleted`` for a copy that
    retention removed.
    """
    if line["event"] != _DELETED or "place" in line:
        return line
    return line | {"event": kinds.REMOVED, "why": str(Removal.RETENTION)}


def history_of_before(events: Iterable[Event]) -> list[Event]:
    """Return the events of a history with the places of copies.

    Earlier histories have no places. They are all about logs, so a copy's place follows from its
    offset, and what the copy waits for follows from the last stable offset and the saved position.
    So it is with each copy that has a position in a log and no place.
    """
    events = list(events)
    if all(not isinstance(event, _PLACED) or _has_place(event) for event in events):
        return events
    stable: dict[tuple[Hop, str | None, int | None], int] = {}
    saved: dict[int | None, int] = {}
    for event in sorted(events, key=lambda each: each.t):
        if isinstance(event, kinds.Log):
            stable[event.hop, event.topic, event.partition] = event.stable
        elif isinstance(event, kinds.Position):
            saved[event.partition] = event.offset

    def now(event: Event) -> Event:
        if not isinstance(event, _PLACED) or _has_place(event):
            return event
        place = in_log(event.partition, event.epoch, event.offset)
        if not isinstance(event, kinds.Stored):
            return msgspec.structs.replace(event, place=place)
        waiting = waits_in_log(
            visible=event.visible,
            offset=NOWHERE if event.offset is None else event.offset,
            stable=stable.get((event.hop, event.topic, event.partition)),
            saved={
                Hop.TOPIC: saved.get(event.partition, NOWHERE),
                Hop.ASIDE: NOWHERE,
            }.get(event.hop),
        )
        return msgspec.structs.replace(event, place=place, waiting=waiting)

    return [now(event) for event in events]


def _has_place(event: kinds.Stored | kinds.Removed | kinds.Recorded | kinds.Absorbed) -> bool:
    return event.place is not None or not in_log(event.partition, event.epoch, event.offset)


_DELETED: Final = "deleted"
_PLACED: Final = (kinds.Stored, kinds.Removed, kinds.Recorded, kinds.Absorbed)
