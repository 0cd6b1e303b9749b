"""Partitions that were added while a pipeline ran: whether they were, in time, and which records went there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.core import events as kinds
from harness.core.prediction import Select

if TYPE_CHECKING:
    from harness.core.history import History


def growth_selections(history: History) -> dict[Select, frozenset[str]]:
    """Return the records that stand in partitions that were added; nothing where none was."""
    added = _added(history)
    there = (e["record"] for e in history.of(kinds.STORED) if (e["topic"], e["partition"]) in added and e["visible"])
    return {Select.ADDED: frozenset(record for record in there if record is not None)} if added else {}


def ungrown(history: History, target: str) -> str | None:
    """Say how the topic did not grow as it was to: not at all, before anybody read it, or without the target."""
    added = _added(history)
    if not added:
        return "the topic was to get partitions, and got none"
    grew = min(added.values())
    if not any(event["t"] < grew for event in history.of(kinds.DELIVERED, kinds.BATCH, kinds.FETCHED)):
        return "the topic got partitions before anybody had read of it"
    old = {f"{e['topic']}/{e['partition']}" for e in history.of(kinds.STORED)
           if e["record"] == target and e["hop"] == "topic" and (e["topic"], e["partition"]) not in added}  # fmt: skip
    if old:
        return f"{target} was to go into a partition that was added, and stands in {', '.join(sorted(old))}"
    return None


def _added(history: History) -> dict[tuple[str, int], int]:
    """When each partition was added."""
    return {(event["topic"], event["partition"]): event["t"] for event in history.of(kinds.ADDED)}
