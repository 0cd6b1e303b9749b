"""Holding the account of a history against an oracle's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.events import account

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.judge.accounting import Account

Row = dict[str, Any]

ROUNDS_MAX = 2000


def figures_of_oracle(found: Row) -> Row:
    """Return the answer of an oracle in a form that can be compared."""
    counts = {
        name: len(value) if isinstance(value, set) else value for name, value in found.items()
    }
    counts["left"] = counts["left_in_source"] + counts["left_in_topic"]
    for name in ("states", "last_hops", "duplicated_ids"):
        del counts[name]
    records = {
        record: (state, found["last_hops"].get(record)) for record, state in found["states"].items()
    }
    return {
        "counts": counts,
        "records": records,
        "lost": found["lost"],
        "duplicated": found["duplicated_ids"],
    }


def figures_of_account(found: Account) -> Row:
    """Return the account's answer in the same form."""
    records = {
        row["record"]: (
            str(row["state"]),
            None if row["last_hop"] is None else str(row["last_hop"]),
        )
        for row in found.rows
    }
    return {
        "counts": found.counts,
        "records": records,
        "lost": set(found.lost),
        "duplicated": set(found.duplicated),
    }


def differences(events: list[Row], oracle: Callable[[list[Row]], Row]) -> str:
    """Say where the two disagree about one history; empty where they agree."""
    told = figures_of_account(account(events))
    want = figures_of_oracle(oracle(events))
    lines = [
        f"{part} {name}: account {told[part].get(name)}, oracle {want[part].get(name)}"
        for part in ("counts", "records")
        for name in {**told[part], **want[part]}
        if told[part].get(name) != want[part].get(name)
    ]
    parts = [part for part in ("lost", "duplicated") if told[part] != want[part]]
    lines += [f"{part}: account {told[part]}, oracle {want[part]}" for part in parts]
    return "\n".join(lines)


def smallest(events: list[Row], oracle: Callable[[list[Row]], Row]) -> list[Row]:
    """Leave out events one by one for as long as the two still disagree."""
    rounds = 0
    at = 0
    while at < len(events) and rounds < ROUNDS_MAX:
        rounds += 1
        fewer = events[:at] + events[at + 1 :]
        if differences(fewer, oracle):
            events = fewer
        else:
            at += 1
    return events


def disagreement(events: list[Row], oracle: Callable[[list[Row]], Row]) -> str:
    """Say where the two disagree, and about which lines, the fewest that will do; empty where they
    agree.
    """
    if not differences(events, oracle):
        return ""
    fewest = smallest(events, oracle)
    return "\n".join([differences(fewest, oracle), *(str(row) for row in fewest)])
