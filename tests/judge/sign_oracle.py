"""A second, brute-force look at the signs of one cell, to hold the real one against; and random
lines that make them.

Written from what each sign says and from :mod:`harness.model.events` alone: one question for each
sign and record, answered by walking through all lines. Lines are of today: every copy has a place,
and says what it waits for.

Readings the definitions leave open, decided here:

- a request is for one topic, and lines about one request are one request, whoever tells them and
  however often;
- a program is named by the first word of an attempt, and an attempt of null names nothing;
- a copy that is damaged is a copy of nothing, but a damaged result came from somewhere all the
  same;
- where lines share a time stamp, the one that is read first came first;
- of a record that was in the dead broker's flushed log nobody can say that a follower has saved it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.judge.oracle import in_time, of, outcomes, transaction_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.judge.histories import Story

Row = dict[str, Any]

BROKERS = ("broker", "leader", "follower", "controller", "coordinator")


def sign_oracle(events: list[Row]) -> dict[str, set[str]]:
    """Return for each offered record which signs it shows."""
    rows = in_time(events)
    return {
        row["record"]: {sign for sign, shows in SHOWS.items() if shows(row, rows)}
        for row in of(rows, "offered")
    }


def about(record: str, rows: list[Row], *names: str) -> list[Row]:
    """Return the lines of these kinds about a record."""
    return [row for row in rows if row["event"] in names and row.get("record") == record]


def copies(record: str, rows: list[Row]) -> list[Row]:
    """Return the whole copies of a record between producer and consumer."""
    return [row for row in about(record, rows, "stored") if row["intact"] and row["hop"] == "topic"]


# --- of any system --------------------------------------------------------------------------------


def repeated_request(offer: Row, rows: list[Row]) -> bool:
    """Whether one attempt was in two requests."""
    asked = about(offer["record"], rows, "sent", "unsent")
    return any(
        one["attempt"] is not None
        and one["attempt"] == other["attempt"]
        and one["request"] != other["request"]
        for one in asked
        for other in asked
    )


def taken_again(offer: Row, rows: list[Row]) -> bool:
    """Whether two programs have taken it."""
    return len({row["by"] for row in about(offer["record"], rows, "taken")}) > 1


def sent_anew(offer: Row, rows: list[Row]) -> bool:
    """Whether one program has made two attempts."""
    attempts = {row["attempt"] for row in about(offer["record"], rows, "sent", "unsent")} - {None}
    return any(
        one != other and one.split(".")[0] == other.split(".")[0]
        for one in attempts
        for other in attempts
    )


def aborted(offer: Row, rows: list[Row]) -> bool:
    """Whether a copy is dead, or a transaction with it ended badly."""
    ended = [name for name, outcome in outcomes(rows).items() if outcome in ("aborted", "fenced")]
    stored = [row for row in about(offer["record"], rows, "stored") if row["intact"]]
    for row in stored:
        if not row["visible"] and row["waiting"] not in ("open", "prepared"):
            return True
    return any(
        transaction_of(row["attempt"]) in ended
        for row in stored + about(offer["record"], rows, "sent", "unsent")
    )


def delivered_again(offer: Row, rows: list[Row]) -> bool:
    """Whether it was given twice, or fetched in vain and then not."""
    arrived: dict[object, list[bool]] = {}
    for row in about(offer["record"], rows, "fetched"):
        arrived.setdefault(row.get("topic"), []).append(row["reached"])
    return len(about(offer["record"], rows, "delivered")) > 1 or any(
        True in each and False in each for each in arrived.values()
    )


def not_resent(offer: Row, rows: list[Row]) -> bool:
    """Whether an attempt's fate is not known, and no topic was asked twice."""
    record = offer["record"]
    told = about(record, rows, "acked", "refused")
    open_ends = [
        row
        for row in about(record, rows, "sent", "unknown")
        if not [end for end in told if row["attempt"] is None or end["attempt"] == row["attempt"]]
    ]
    asked = {(row["topic"], row["request"]) for row in about(record, rows, "sent", "unsent")}
    topics = [topic for topic, _ in asked]
    return bool(open_ends) and len(topics) == len(set(topics))


def resumed_past(offer: Row, rows: list[Row]) -> bool:
    """Whether a program that was not the first went on behind it: in the source, or in the log of
    its copy.
    """
    resumed = of(rows, "resumed")
    for number, row in enumerate(resumed):
        if not [
            first
            for first in resumed[:number]
            if (first["where"], first["partition"]) == (row["where"], row["partition"])
        ]:
            continue
        if row["partition"] is None and offer["position"] < row["position"]:
            return True
        for copy in copies(offer["record"], rows):
            if (
                copy.get("partition") is not None
                and copy["partition"] == row["partition"]
                and copy["offset"] < row["position"]
            ):
                return True
    return False


# --- of one ---------------------------------------------------------------------------------------


def replayed(offer: Row, rows: list[Row]) -> bool:
    """Whether two drivers had a batch with it."""
    drivers = set()
    for copy in copies(offer["record"], rows):
        for batch in of(rows, "batch"):
            inside = (
                copy.get("partition") == batch["partition"]
                and batch["offset"] <= copy["offset"] < batch["position"]
            )
            if copy["visible"] and inside:
                drivers.add(batch["by"])
    return len(drivers) > 1


def flushed(offer: Row, rows: list[Row]) -> bool:
    """Whether a copy was on the disk when the power went."""
    return any(
        copy.get("partition") is not None
        and copy["partition"] == flush["partition"]
        and copy["offset"] < flush["offset"]
        for copy in copies(offer["record"], rows)
        for flush in of(rows, "flushed")
    )


def replicated(offer: Row, rows: list[Row]) -> bool:
    """Whether a follower had it while all brokers lived, and the disk of the dead one had not."""
    deaths = [
        row["t"] for row in of(rows, "node") if row["phase"] == "exited" and row["role"] in BROKERS
    ]
    had = [
        row
        for row in about(offer["record"], rows, "replicated")
        if row["reached"] and all(row["t"] < t for t in deaths)
    ]
    return bool(deaths and had) and not flushed(offer, rows)


def found(offer: Row, rows: list[Row]) -> bool:
    """Whether a result came from a partition that was added."""
    added = [row["partition"] for row in of(rows, "added")]
    return any(row.get("partition") in added for row in about(offer["record"], rows, "recorded"))


def asked_again(offer: Row, rows: list[Row]) -> bool:
    """Whether what the fault was about was asked again."""
    hit = [row["api"] for row in of(rows, "rule") if row["phase"] == "hit"]
    return any(row["api"] in hit for row in about(offer["record"], rows, "asked_again"))


def asked_anew(offer: Row, rows: list[Row]) -> bool:
    """Whether a client that was refused at it asked the same again; a request that names no record
    counts from those that do.
    """
    rules = of(rows, "rule")
    for refusal in rules:
        named = refusal["records"] or [
            record for row in rules if row["phase"] == "hit" for record in row["records"]
        ]
        if refusal["phase"] != "answered" or not refusal["reached"] or offer["record"] not in named:
            continue
        for row in of(rows, "frame"):
            same = [row[name] == refusal[name] for name in ("api", "role", "client")]
            other = row["conn"] != refusal["conn"] or row["corr"] != refusal["corr"]
            if row["dir"] == "request" and all(same) and other and row["t"] > refusal["t"]:
                return True
    return False


def commits(offer: Row, rows: list[Row]) -> tuple[int, list[str]]:
    """Return how often a database was asked to commit it, and the answers that came."""
    told = about(offer["record"], rows, "database_commit")
    asked = {row["request"] for row in told if row["outcome"] is None}
    return len(asked), [
        row["outcome"] for row in told if row["outcome"] is not None and row["reached"]
    ]


def not_given_again(offer: Row, rows: list[Row]) -> bool:
    """Whether it is gone for an acknowledgement of which nobody was told that it was taken, and was
    given once.
    """
    unheard = [
        row
        for row in about(offer["record"], rows, "acknowledged")
        if row["outcome"] == "taken" and not row["reached"]
    ]
    given = [row for row in about(offer["record"], rows, "fetched") if row["reached"]]
    return bool(unheard) and len(given) == 1 and gone(offer, rows)


def gone(offer: Row, rows: list[Row]) -> bool:
    """Whether it was taken away for an acknowledgement."""
    return any(row["why"] == "ack" for row in about(offer["record"], rows, "removed"))


def _since(offer: Row, rows: list[Row], when: Row) -> bool:
    """Whether somebody was given it, or was to be, behind a line."""
    return any(row["t"] > when["t"] for row in about(offer["record"], rows, "fetched"))


def taken_before(offer: Row, rows: list[Row]) -> bool:
    """Whether it is gone for an acknowledgement whose taking was told before the fault, and it was
    given to nobody since.
    """
    fired = [row["t"] for row in of(rows, "fault") if row["phase"] == "fired"]
    told = [
        row
        for row in about(offer["record"], rows, "acknowledged")
        if row["outcome"] == "taken" and row["reached"]
    ]
    before = [row for row in told if fired and row["t"] < fired[0]]
    return bool(before) and gone(offer, rows) and not _since(offer, rows, before[-1])


def written_untold(offer: Row, rows: list[Row]) -> bool:
    """Whether that it was acknowledged was written down, nobody was told, and it was given to
    nobody since.
    """
    said = about(offer["record"], rows, "share_state")
    lost = [
        row
        for row in said
        if row["outcome"] == "taken" and row["state"] == "acknowledged" and not row["reached"]
    ]
    return bool(lost) and gone(offer, rows) and not _since(offer, rows, lost[-1])


def written_again(offer: Row, rows: list[Row]) -> bool:
    """Whether one and the same state of it was to be written down by two requests."""
    said = {(row["state"], row["request"]) for row in about(offer["record"], rows, "share_state")}
    return any(one[0] == other[0] and one != other for one in said for other in said)


def _any(kind: str, **fields: object) -> Callable[[Row, list[Row]], bool]:
    """Whether there is a line of a kind about it, with these fields."""
    return lambda offer, rows: any(
        fields.items() <= row.items() for row in about(offer["record"], rows, kind)
    )


def _ended_again(offer: Row, rows: list[Row]) -> bool:
    return (
        len(
            {
                row["request"]
                for row in about(offer["record"], rows, "ending")
                if row["outcome"] is None
            }
        )
        > 1
    )


SHOWS: dict[str, Callable[[Row, list[Row]], bool]] = {
    "repeated-request": repeated_request,
    "taken-again": taken_again,
    "sent-anew": sent_anew,
    "aborted": aborted,
    "delivered-again": delivered_again,
    "absorbed": _any("absorbed"),
    "not-resent": not_resent,
    "resumed-past": resumed_past,
    "ended-again": _ended_again,
    "end-refused": _any("ending", outcome="refused"),
    "replayed": replayed,
    "flushed": flushed,
    "told-to-flush": lambda offer, rows: any(
        offer["record"] in row["records"] for row in rows if row["event"] == "power"
    ),
    "replicated": replicated,
    "found": found,
    "asked-again": asked_again,
    "asked-anew": asked_anew,
    "alone": _any("alone"),
    "ungoverned": _any("ungoverned"),
    "marked-again": _any("marked_again"),
    "not-given-again": not_given_again,
    "taken-before": taken_before,
    "written-untold": written_untold,
    "written-again": written_again,
    "committed-again": lambda offer, rows: commits(offer, rows)[0] > 1,
    "not-repeated": lambda offer, rows: (
        commits(offer, rows)[0] == 1 and not commits(offer, rows)[1]
    ),
    "durable": lambda offer, rows: (
        commits(offer, rows)[0] == 1 and "committed" in commits(offer, rows)[1]
    ),
}


# --- lines that make signs ------------------------------------------------------------------------

APIS = ("AddPartitionsToTxn", "AddOffsetsToTxn")
LINES = (
    "frame",
    "frame",
    "frame",
    "rule",
    "rule",
    "taken",
    "sent",
    "sent",
    "unsent",
    "fetched",
    "resumed",
    "resumed",
    "ending",
    "ending",
    "asked_again",
    "marked_again",
    "rule",
    "database_commit",
    "database_commit",
    "batch",
    "batch",
    "flushed",
    "power",
    "node",
    "replicated",
    "alone",
    "ungoverned",
    "added",
    "acknowledged",
    "acknowledged",
    "acknowledged",
    "share_state",
    "share_state",
    "share_state",
    "removed",
    "fault",
)


def protect(
    story: Story, dice: random.Random, records: list[str], *, logs: bool, most: int = 80
) -> None:
    """Tell so many lines of what protections do, each of small pools, which make them meet.
    ``logs``: those about logs, too.
    """
    pick = dice.choice
    for kind in dice.choices(LINES, k=dice.randint(0, most)):
        record, partition = pick(records), pick((0, 1))
        topic = pick(("t", "t", "results"))
        attempt = pick((None, "p-1.1.1", "p-1.1.2", "p-2.1.1"))
        asked = {
            "record": record,
            "attempt": attempt,
            "topic": topic,
            "request": f"{topic}/{pick('12')}",
        }
        there = partition if logs and dice.random() < 0.7 else None
        frame = {
            "api": pick(APIS),
            "role": "producer",
            "client": pick(("p-1", "p-1", "p-2")),
            "conn": 1,
            "corr": pick((1, 2)),
        }
        fields: dict[str, dict[str, Any]] = {
            "sent": asked,
            "unsent": asked,
            "fetched": {"record": record, "topic": topic, "reached": dice.random() < 0.6},
            "resumed": {
                "where": pick(("group", "group", "other")),
                "partition": there,
                "position": pick((0, 1, 2, 4)),
            },
            "ending": {
                "record": record,
                "request": pick("12"),
                "outcome": pick((None, None, None, "refused", "taken")),
                "reached": True,
            },
            "asked_again": {"record": record, "api": pick(APIS)},
            "rule": {
                "rule": "fault",
                "phase": pick(("armed", "hit", "answered")),
                "reached": dice.random() < 0.8,
                "records": pick(([], [record], [record])),
                **frame,
            },
            "frame": {"dir": pick(("request", "request", "response")), **frame},
            "database_commit": {
                "record": record,
                "request": pick("12"),
                "outcome": pick((None, None, None, "refused", "committed", "rolled back")),
                "reached": dice.random() < 0.7,
            },
            "batch": {
                "batch": 0,
                "partition": partition,
                "offset": pick((0, 1, 2)),
                "position": pick((2, 3, 5)),
            },
            "flushed": {"partition": partition, "offset": pick((0, 1, 2, 5))},
            "power": {
                "node": "n",
                "names": "ext4",
                "calls": 3,
                "flushes": 1,
                "records": pick(([], [record], [record, pick(records)])),
            },
            "node": {
                "node": "n",
                "role": pick((*BROKERS, "producer")),
                "phase": pick(("started", "exited", "paused")),
            },
            "replicated": {
                "record": record,
                "topic": topic,
                "partition": partition,
                "reached": dice.random() < 0.7,
            },
            "acknowledged": {
                "record": record,
                "outcome": pick((None, "taken", "taken")),
                "reached": dice.random() < 0.5,
            },
            "share_state": {
                "record": record,
                "request": pick("12"),
                "state": pick(("acknowledged", "acknowledged", "available")),
                "outcome": pick((None, "taken", "taken")),
                "reached": dice.random() < 0.5,
            },
            "removed": {"record": record, "place": f"q:{record}", "why": "ack"},
            "fault": {"phase": "fired", "fault": "f"},
            "added": {"topic": "t", "partition": pick((1, 2)), "before": 1},
        }
        by = (
            pick(("driver-1", "driver-2"))
            if kind == "batch"
            else pick(("p-1", "p-2"))
            if kind == "taken"
            else "wire"
        )
        story.tell(kind, by, **fields.get(kind, {"record": record}))
