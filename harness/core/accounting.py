"""The account: what a history says was offered, stored, recorded, lost and duplicated. It decides nothing.

The rules are section 3 of the design. They are functions over one tidy pandas frame (one row per event, see
:data:`COLUMNS`), every one of them grouped by ``cell``, so that a small run calls :func:`account` directly and a large
one can hand whole cells to ``groupBy("cell").applyInPandas`` with :func:`record_table` and :func:`cell_table`.

Ids, never offsets, are the key of every comparison: offsets are reused after a truncation and have gaps where
transaction markers stand. A log copy is (partition, leader epoch, offset).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.core import events as kinds
from harness.core.scenario import BROKERS
from harness.core.sign import Sign
from harness.core.states import LastHop, State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.core.history import Event

COLUMNS: dict[str, str] = {
    "cell": "str", "t": "int", "event": "str", "record": "str", "key": "str", "position": "int", "hop": "str",
    "topic": "str", "partition": "int", "epoch": "int", "offset": "int", "attempt": "str", "intact": "bool",
    "visible": "bool", "stable": "int", "order": "int", "reached": "bool", "outcome": "str", "transaction": "str",
    "request": "str", "where": "str", "error": "str", "by": "str", "phase": "str", "role": "str", "api": "str", "foreign": "bool",
}  # fmt: skip
"""The columns of the tidy event frame. Missing numbers are -1, missing strings null, missing flags false."""


READ = frozenset({
    kinds.OFFERED, kinds.CURSOR, kinds.STORED, kinds.LOG, kinds.POSITION, kinds.RECORDED, kinds.ABSORBED, kinds.RESUMED,
    kinds.TAKEN, kinds.ACKED, kinds.REFUSED, kinds.UNKNOWN, kinds.DELIVERED, kinds.TRANSACTION, kinds.SENT, kinds.UNSENT,
    kinds.FETCHED, kinds.FLUSHED, kinds.ALONE, kinds.REPLICATED, kinds.BATCH, kinds.DELETED, kinds.ENDING, kinds.ASKED_AGAIN,
    kinds.MARKED_AGAIN, kinds.DATABASE_COMMIT, kinds.ADDED, kinds.UNGOVERNED, kinds.NODE, kinds.RULE,
})  # fmt: skip
"""The kinds of events that the rules of counting read (of the wire's rules: their hits); a history has many more."""


@dataclass(frozen=True)
class Account:
    """The account of one cell.

    ``counts`` holds one integer per column of the report. ``records`` has one row per offered record (columns:
    ``record, key, position, state, last_hop, recordings, stored_twice, delivered_twice, absorbed, acked, refused,
    unknown`` and one :func:`flag` per :class:`~harness.core.sign.Sign`).
    """

    counts: dict[str, int]
    records: pd.DataFrame

    @property
    def lost(self) -> frozenset[str]:
        """Ids of lost records."""
        return frozenset(self.records.loc[self.records["state"] == State.LOST, "record"])

    @property
    def left(self) -> frozenset[str]:
        """Ids of records that are left in the source or in the topic."""
        return frozenset(self.records.loc[self.records["state"].isin([State.LEFT_IN_TOPIC, State.LEFT_IN_SOURCE]), "record"])

    @property
    def duplicated(self) -> frozenset[str]:
        """Ids of records recorded more than once."""
        return frozenset(self.records.loc[self.records["recordings"] > 1, "record"])

    def signs(self, record: str) -> frozenset[Sign]:
        """The signs of protection seen on one record."""
        row = self.records.loc[self.records["record"] == record]
        return frozenset(sign for sign in Sign if not row.empty and bool(row[flag(sign)].iloc[0]))


def flag(sign: Sign) -> str:
    """Return the column that flags a sign; prefixed, for some signs are named like a count.

    >>> flag(Sign.ABSORBED)
    'shows absorbed'
    """
    return f"shows {sign}"


_TYPES: dict[str, type] = {"int": int, "str": str, "bool": bool}


def frame_of(events: Iterable[Event]) -> pd.DataFrame:
    """Turn events into the tidy frame, ordered by time. Raises ``TypeError`` where a field holds what it cannot."""
    rows = [event for event in events if _is_read(event)]
    data: dict[str, Any] = {}
    for name, kind in COLUMNS.items():
        values = [row.get(name) for row in rows]
        for row, value in zip(rows, values, strict=True):
            if not (value is None or (isinstance(value, _TYPES[kind]) and isinstance(value, bool) is (kind == "bool"))):
                raise TypeError(f"{name} of an event {row['event']} cannot be {value!r:.60}")
        if kind == "int":
            data[name] = np.array([-1 if v is None else v for v in values], dtype="int64")
        elif kind == "bool":
            data[name] = np.array([bool(v) for v in values], dtype="bool")
        else:
            data[name] = pd.Series(values, dtype="object")
    return numbered(pd.DataFrame(data).sort_values("t", kind="stable", ignore_index=True))


def _is_read(event: Event) -> bool:
    return event["event"] in READ and (event["event"] != kinds.RULE or event.get("phase") == "hit")


def numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """Add ``rid``, ``aid`` and ``xid``: numbers that stand for (cell, record), (cell, record, attempt) and (cell, transaction).

    Comparing numbers is a hundred times cheaper than comparing tuples. Where a part is null, ``rid`` and ``xid`` are -1;
    ``aid`` then stands for "an attempt of this record that has no name".
    """
    frame = frame.copy()
    transaction = frame["transaction"].where(frame["transaction"].notna(), transaction_of(frame["attempt"]))
    record = frame["cell"] + "\0" + frame["record"]
    frame["transaction"] = transaction
    frame["rid"] = pd.factorize(record)[0]
    frame["aid"] = pd.factorize(record + "\0" + frame["attempt"].where(frame["attempt"].notna(), ""))[0]
    frame["xid"] = pd.factorize(frame["cell"] + "\0" + transaction)[0]
    return frame


def account(events: Iterable[Event]) -> Account:
    """Account for one cell's events."""
    frame = frame_of({**event, "cell": "one"} for event in events)
    records = record_table(frame)
    cells = cell_table(frame, records, ["one"])
    return Account({name: int(cells[name].iloc[0]) for name in cells.columns if name != "cell"}, records)


RECORD = ["rid"]
ATTEMPT = ["aid"]
TRANSACTION = ["xid"]
COPY = ["partition", "epoch", "offset"]


def _of(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    found = np.flatnonzero(frame["event"].isin(names).to_numpy())
    return frame.take(found) if len(found) else frame.iloc[:0]  # of most kinds a history has none


def _joined(one: pd.DataFrame, other: pd.DataFrame, on: list[str], suffixes: tuple[str, str] = ("_x", "_y")) -> pd.DataFrame:
    """Return the rows of both that agree in ``on``; most often one of them has none, and nothing has to be looked for."""
    return one.iloc[:0] if one.empty or other.empty else one.merge(other, on=on, suffixes=suffixes)


def _marked(base: pd.DataFrame, seen: pd.DataFrame, key: list[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each row of ``base``, whether its key (one numbered column) occurs in ``seen``; -1 never does."""
    if not len(seen):
        return np.zeros(len(base), dtype="bool")
    known = seen[key[0]].to_numpy()
    return np.isin(base[key[0]].to_numpy(), known[known >= 0])


def _counted(base: pd.DataFrame, seen: pd.DataFrame) -> pd.Series[int]:
    """For each record of ``base``, how many rows of ``seen`` it has."""
    if not len(seen):
        return pd.Series(0, index=base.index, dtype="int64")
    found = seen["rid"].to_numpy()
    wanted = base["rid"].to_numpy()
    most = int(max(found.max(initial=0), wanted.max(initial=0))) + 1
    return pd.Series(np.bincount(found[found >= 0], minlength=most)[wanted], index=base.index)


def offered(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per offered record: ``cell, record, rid, key, position``."""
    rows = _of(frame, kinds.OFFERED)[["cell", "record", "rid", "key", "position"]]
    return rows.drop_duplicates(RECORD).reset_index(drop=True)


def first_hop(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out what programs and wire said about a log that is the sink: it is another hop of the same record."""
    logs = _of(frame, kinds.LOG)
    sinks = logs[logs["hop"] == "sink"]
    about = frame["event"].isin([kinds.ACKED, kinds.REFUSED, kinds.UNKNOWN, kinds.SENT, kinds.UNSENT])
    to_sink = (frame["cell"] + "\0" + frame["topic"]).isin(sinks["cell"] + "\0" + sinks["topic"])
    return frame[~(about & ((frame["hop"] == "sink") | to_sink))]


def _last(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    return frame.drop_duplicates(by, keep="last")


def copies(frame: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Every log copy, with ``known`` (intact and offered) and ``stalled``."""
    rows = _of(frame, kinds.STORED).drop(columns="stable")
    logs = _last(_of(frame, kinds.LOG), ["cell", "hop", "topic", "partition"])
    rows = rows.merge(logs[["cell", "hop", "topic", "partition", "stable"]], how="left",
                      on=["cell", "hop", "topic", "partition"])  # fmt: skip
    rows["known"] = rows["intact"] & _marked(rows, base, RECORD)
    rows["stalled"] = ~rows["visible"] & rows["stable"].notna() & (rows["offset"] >= rows["stable"])
    return rows


def transaction_of(attempts: pd.Series[str]) -> pd.Series[str]:
    """The transaction an attempt id belongs to (its first two words, ``<incarnation>.<transaction>``), or null."""
    return attempts.astype("object").map(lambda a: ".".join(a.split(".")[:2]) if isinstance(a, str) else None)


def recordings(frame: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Every row of the sink, with ``known`` (intact and offered)."""
    rows = _of(frame, kinds.RECORDED).copy()
    rows["known"] = rows["intact"] & _marked(rows, base, RECORD)
    return rows


def record_table(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per offered record: state, last hop, copies and signs. ``frame`` holds whole cells."""
    base = offered(frame)
    stored = copies(frame, base)
    stored = stored[stored["known"]]
    rows = recordings(frame, base)
    rows = rows[rows["known"]]
    table = base.copy()
    near = first_hop(frame)
    for column, kind in (("acked", kinds.ACKED), ("refused", kinds.REFUSED)):
        table[column] = _marked(base, _of(near, kind), RECORD)
    table["unknown"] = _marked(base, _unknown_attempts(near), RECORD)
    table["stored"] = _marked(base, stored[stored["hop"] == "topic"], RECORD)
    table["recordings"] = _counted(base, rows)
    table["absorbed"] = _counted(base, _of(frame, kinds.ABSORBED))
    _add_duplicates(table, rows)
    _add_states(table, near, stored)
    _add_signs(table, frame, stored)
    return table.drop(columns="rid")


def _unknown_attempts(frame: pd.DataFrame) -> pd.DataFrame:
    """Attempts whose fate the program does not know, one row each."""
    open_ends = _of(frame, kinds.SENT, kinds.UNKNOWN)
    told = _of(frame, kinds.ACKED, kinds.REFUSED)
    named = open_ends[open_ends["attempt"].notna()]
    nameless = open_ends[open_ends["attempt"].isna()]
    return pd.concat([
        named[~_marked(named, told[told["attempt"].notna()], ATTEMPT)],
        nameless[~_marked(nameless, told, RECORD)],
    ])  # fmt: skip


def _add_duplicates(table: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Add ``duplicated``, ``stored_twice`` and ``delivered_twice`` (extra copies per record)."""
    table["duplicated"] = (table["recordings"] - 1).clip(lower=0)
    origins = rows.drop_duplicates([*RECORD, *COPY])
    again = rows[rows["attempt"].notna()]
    same_attempt = again[again.duplicated([*ATTEMPT, *COPY])]
    stored_twice = (_counted(table, origins) - 1).clip(lower=0) + _counted(table, same_attempt)
    table["stored_twice"] = stored_twice
    table["delivered_twice"] = table["duplicated"] - stored_twice


def _add_states(table: pd.DataFrame, frame: pd.DataFrame, stored: pd.DataFrame) -> None:
    """Add ``state`` and, for the lost, ``last_hop``."""
    in_topic = stored[stored["hop"] == "topic"]
    visible = in_topic[in_topic["visible"]]
    saved = _last(_of(frame, kinds.POSITION), ["cell", "partition"])[["cell", "partition", "offset"]]
    reach = visible.merge(saved, how="left", on=["cell", "partition"], suffixes=("", "_saved"))
    left = reach[reach["offset"] >= reach["offset_saved"].fillna(-1)]
    cursor = _last(_of(frame, kinds.CURSOR), ["cell"])[["cell", "position"]]
    limit = table[["cell"]].merge(cursor, how="left", on="cell")["position"]
    delivered = pd.concat([_of(frame, kinds.DELIVERED), frame[(frame["event"] == kinds.FETCHED) & frame["reached"]]])

    table["state"] = np.select(
        [
            table["recordings"] > 0,
            _marked(table, stored[stored["stalled"]], RECORD),
            _marked(table, left, RECORD),
            (limit.notna() & (table["position"] >= limit.fillna(0))).to_numpy(),
        ],
        [State.RECORDED, State.STALLED, State.LEFT_IN_TOPIC, State.LEFT_IN_SOURCE],
        default=State.LOST,
    )
    has_copy = _marked(table, in_topic, RECORD)
    gone = _marked(table, _of(frame, kinds.DELETED), RECORD)
    taken = _marked(table, _of(frame, kinds.DELIVERED), RECORD)  # what a dead client had fetched beforehand is not delivered
    hop = np.select(
        [
            ~has_copy & gone & taken,
            ~has_copy & gone,
            ~has_copy & table["acked"],
            ~has_copy & _marked(table, _of(frame, kinds.SENT, kinds.UNKNOWN), RECORD),
            ~has_copy,
            ~_marked(table, visible, RECORD),
            _marked(table, delivered, RECORD),
        ],
        [LastHop.DELIVERED, LastHop.DELETED, LastHop.ACKED, LastHop.SENT, LastHop.NEVER_SENT, LastHop.ABORTED, LastHop.DELIVERED],
        default=LastHop.SKIPPED,
    )
    table["last_hop"] = pd.Series(hop, index=table.index, dtype="object").where(table["state"] == State.LOST, None)


def _add_signs(table: pd.DataFrame, frame: pd.DataFrame, stored: pd.DataFrame) -> None:
    """Add one flag per sign."""
    asked = _of(frame, kinds.SENT, kinds.UNSENT).drop_duplicates([*ATTEMPT, "request"])
    again = asked[asked["attempt"].notna() & asked.duplicated(ATTEMPT)]
    taken = _of(frame, kinds.TAKEN).drop_duplicates([*RECORD, "by"])
    got = _of(frame, kinds.DELIVERED)
    fetched = _of(frame, kinds.FETCHED)
    missed = _marked(table, fetched[~fetched["reached"]], RECORD)
    outcomes = outcomes_of(frame)
    bad = outcomes[outcomes["outcome"].isin(["aborted", "fenced"])]
    attempts = pd.concat([stored[["rid", "xid"]], asked[["rid", "xid"]]])
    in_bad = attempts[_marked(attempts, bad, TRANSACTION)]
    dead = stored[~stored["visible"] & ~stored["stalled"]]
    several = asked.drop_duplicates([*RECORD, "request"])

    table[flag(Sign.REPEATED_REQUEST)] = _marked(table, again, RECORD)
    attempts_made = asked[asked["attempt"].notna()].drop_duplicates(ATTEMPT)
    by = attempts_made["attempt"].map(lambda attempt: attempt.partition(".")[0])
    anew = attempts_made[attempts_made.assign(by=by).duplicated([*RECORD, "by"])]
    table[flag(Sign.SENT_ANEW)] = _marked(table, anew, RECORD)
    table[flag(Sign.TAKEN_AGAIN)] = _counted(table, taken) > 1
    table[flag(Sign.ABORTED)] = _marked(table, dead, RECORD) | _marked(table, in_bad, RECORD)
    table[flag(Sign.DELIVERED_AGAIN)] = (_counted(table, got) > 1) | (
        missed & _marked(table, fetched[fetched["reached"]], RECORD)
    )
    table[flag(Sign.ABSORBED)] = table["absorbed"] > 0
    table[flag(Sign.NOT_RESENT)] = _marked(table, _unknown_attempts(frame), RECORD) & ~_marked(
        table, several[several.duplicated([*RECORD, "topic"])], RECORD
    )
    table[flag(Sign.RESUMED_PAST)] = _resumed_past(table, frame, stored)
    table[flag(Sign.REPLAYED)] = _replayed(table, frame, stored)
    endings = _of(frame, kinds.ENDING)
    asked_to_end = endings[endings["outcome"].isna()].drop_duplicates([*RECORD, "request"])
    table[flag(Sign.ENDED_AGAIN)] = _counted(table, asked_to_end) > 1
    table[flag(Sign.END_REFUSED)] = _marked(table, endings[endings["outcome"] == "refused"], RECORD)
    struck = _of(frame, kinds.RULE)[["cell", "api"]].drop_duplicates()
    table[flag(Sign.ASKED_AGAIN)] = _marked(table, _joined(_of(frame, kinds.ASKED_AGAIN), struck, ["cell", "api"]), RECORD)
    table[flag(Sign.MARKED_AGAIN)] = _marked(table, _of(frame, kinds.MARKED_AGAIN), RECORD)
    _add_commit_signs(table, frame)
    nodes, copied = _of(frame, kinds.NODE), _of(frame, kinds.REPLICATED)
    first_death = nodes[(nodes["phase"] == "exited") & nodes["role"].isin(BROKERS)].groupby("cell")["t"].min()
    copied = copied[copied["reached"] & (copied["t"] < copied["cell"].map(first_death))]
    table[flag(Sign.ALONE)] = _marked(table, _of(frame, kinds.ALONE), RECORD)
    table[flag(Sign.FOUND)] = _marked(table, _from_added(frame), RECORD)
    table[flag(Sign.UNGOVERNED)] = _marked(table, _of(frame, kinds.UNGOVERNED), RECORD)
    table[flag(Sign.FLUSHED)] = _flushed(table, frame, stored)
    # what the dead broker had flushed it still has: then no follower was needed
    table[flag(Sign.REPLICATED)] = _marked(table, copied, RECORD) & ~table[flag(Sign.FLUSHED)]


def _add_commit_signs(table: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Add the signs of what a database was asked to commit."""
    commits = _of(frame, kinds.DATABASE_COMMIT)
    asked = _counted(table, commits[commits["outcome"].isna()].drop_duplicates([*RECORD, "request"]))
    told = commits[commits["outcome"].notna() & commits["reached"]]
    table[flag(Sign.COMMITTED_AGAIN)] = asked > 1
    table[flag(Sign.NOT_REPEATED)] = (asked == 1) & ~_marked(table, told, RECORD)
    table[flag(Sign.DURABLE)] = (asked == 1) & _marked(table, told[told["outcome"] == "committed"], RECORD)


def _from_added(frame: pd.DataFrame) -> pd.DataFrame:
    """Results of copies in partitions that were added while the pipeline ran."""
    added = _of(frame, kinds.ADDED)[["cell", "partition"]].drop_duplicates()
    return _joined(_of(frame, kinds.RECORDED), added, ["cell", "partition"])


def _flushed(table: pd.DataFrame, frame: pd.DataFrame, stored: pd.DataFrame) -> Any:
    """Whether a copy of the record lay below the flushed offset of its partition when the power was lost."""
    points = _of(frame, kinds.FLUSHED)[["cell", "partition", "offset"]]
    if points.empty:
        return np.zeros(len(table), dtype="bool")
    reach = stored[stored["hop"] == "topic"].merge(points, on=["cell", "partition"], suffixes=("", "_flushed"))
    return _marked(table, reach[reach["offset"] < reach["offset_flushed"]], RECORD)


def _replayed(table: pd.DataFrame, frame: pd.DataFrame, stored: pd.DataFrame) -> Any:
    """Whether the record lay in batches of more than one incarnation."""
    ranges = _of(frame, kinds.BATCH)[["cell", "partition", "offset", "position", "by"]].drop_duplicates()
    if ranges.empty:
        return np.zeros(len(table), dtype="bool")
    at = stored[(stored["hop"] == "topic") & stored["visible"]].drop(columns=["position", "by"])
    in_batch = at.merge(ranges, on=["cell", "partition"], suffixes=("", "_from"))
    in_batch = in_batch[(in_batch["offset"] >= in_batch["offset_from"]) & (in_batch["offset"] < in_batch["position"])]
    return _counted(table, in_batch.drop_duplicates([*RECORD, "by"])) > 1


def _resumed_past(table: pd.DataFrame, frame: pd.DataFrame, stored: pd.DataFrame) -> pd.Series[bool]:
    """Whether a program that started again went on past the record: past its log copy, or past its source position."""
    starts = _of(frame, kinds.RESUMED)
    first = starts.drop_duplicates(["cell", "where", "partition"])
    later = starts.drop(first.index)
    logs = later[later["partition"] >= 0][["cell", "partition", "position"]]
    at = stored.drop(columns="position").merge(logs, on=["cell", "partition"])
    past = at[at["position"] > at["offset"]]
    cursors = later[later["partition"] < 0][["cell", "position"]].groupby("cell")["position"].max()
    reach = table["cell"].map(cursors)
    return pd.Series(_marked(table, past, RECORD), index=table.index) | (reach > table["position"])


def outcomes_of(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per transaction: ``xid, outcome`` as the program was told; the last word that is not "begun"."""
    told = _of(frame, kinds.TRANSACTION)
    ordered = pd.concat([told[told["outcome"] == "begun"], told[told["outcome"] != "begun"]])
    return _last(ordered, TRANSACTION)[["xid", "outcome"]]


def resurrected(frame: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """Copies a read-committed reader sees although they were aborted, or refused with no earlier unknown attempt."""
    visible = stored[stored["visible"]]
    outcomes = outcomes_of(frame)
    undone = _marked(visible, outcomes[outcomes["outcome"] == "aborted"], TRANSACTION)
    refusals = _of(frame, kinds.REFUSED)
    if refusals.empty:
        return visible[undone]
    doubts = _of(frame, kinds.UNKNOWN).groupby(RECORD, as_index=False)["t"].min()
    refusals = refusals.merge(doubts, how="left", on=RECORD, suffixes=("", "_doubt"))
    clear = refusals[refusals["t_doubt"].isna() | (refusals["t_doubt"] >= refusals["t"])]
    clear = clear[clear["attempt"].notna()]
    return visible[undone | _marked(visible, clear, ATTEMPT)]


def torn(frame: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """Transactions of which some attempts are visible and some are not: ``cell, xid``."""
    known = outcomes_of(frame)
    if known.empty:
        return known.assign(cell=None)
    columns = ["cell", "rid", "attempt", "aid", "xid"]
    logged = stored.loc[~stored["stalled"], [*columns, "visible"]]
    only_stalled = stored[stored["stalled"]]
    told = _of(frame, kinds.ACKED)[columns].assign(visible=False)
    told = told[_marked(told, offered(frame), RECORD)]  # what was never offered is a phantom, and part of nothing
    told = told[~(_marked(told, only_stalled, ATTEMPT) & ~_marked(told, logged, ATTEMPT))]
    parts = pd.concat([logged, told])
    parts = parts[parts["attempt"].notna() & _marked(parts, known, TRANSACTION)]
    seen = parts.groupby("aid", as_index=False).agg({"cell": "first", "xid": "first", "visible": "max"})
    spread = seen.groupby(["cell", "xid"], as_index=False)["visible"].agg(["min", "max"])
    return spread[spread["min"] != spread["max"]]


def phantom(rows: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """What is in the sink or topic and was never offered, or is damaged; a copy that went on into the sink is counted there.

    What programs write beside their records (``foreign``) is no record at all.
    """
    in_sink = rows[~rows["known"]]
    in_topic = stored[~stored["known"] & (stored["hop"] == "topic") & ~stored["foreign"]]
    if in_topic.empty:
        return in_sink
    place = ["cell", *COPY]
    gone_on = pd.MultiIndex.from_frame(in_topic[place]).isin(pd.MultiIndex.from_frame(in_sink[place]))
    return pd.concat([in_sink, in_topic[~gone_on]])


def reordered(rows: pd.DataFrame, base: pd.DataFrame) -> pd.DataFrame:
    """Records first recorded after a record of their key that stands later in the source."""
    first = rows.sort_values("order", kind="stable").drop_duplicates(RECORD)
    first = first[["rid", "order"]].merge(base, on="rid")
    first = first.sort_values("order", kind="stable")
    highest = first.groupby(["cell", "key"], sort=False)["position"].cummax()
    return first[highest > first["position"]]


def cell_table(frame: pd.DataFrame, records: pd.DataFrame, names: list[str] | None = None) -> pd.DataFrame:
    """One row per cell (of ``names``, or of the frame): ``cell`` and one count per column of the report."""
    base = offered(frame)
    stored = copies(frame, base)
    rows = recordings(frame, base)
    known = stored[stored["known"]]
    cells = pd.Index(names if names is not None else frame["cell"].unique(), name="cell")

    def per_cell(found: pd.DataFrame) -> pd.Series[int]:
        return found.groupby("cell").size().reindex(cells, fill_value=0)

    def total(column: str) -> pd.Series[int]:
        return records.groupby("cell")[column].sum().reindex(cells, fill_value=0).astype("int64")

    def in_state(*states: State) -> pd.Series[int]:
        return per_cell(records[records["state"].isin(states)])

    phantoms = phantom(rows, stored)
    table = pd.DataFrame({
        "offered": per_cell(base),
        "acked": total("acked"),
        "refused": total("refused"),
        "unknown": total("unknown"),
        "stored": total("stored"),
        "recorded": in_state(State.RECORDED),
        "lost": in_state(State.LOST),
        "duplicated": total("duplicated"),
        "stored_twice": total("stored_twice"),
        "delivered_twice": total("delivered_twice"),
        "absorbed": total("absorbed"),
        "aborted": per_cell(known[~known["visible"] & ~known["stalled"]]),
        "phantom": per_cell(phantoms),
        "resurrected": per_cell(resurrected(frame, known)),
        "torn": per_cell(torn(frame, known)),
        "reordered": per_cell(reordered(rows[rows["known"]], base)),
        "left": in_state(State.LEFT_IN_SOURCE, State.LEFT_IN_TOPIC),
        "left_in_source": in_state(State.LEFT_IN_SOURCE),
        "left_in_topic": in_state(State.LEFT_IN_TOPIC),
        "stalled": in_state(State.STALLED),
    })  # fmt: skip
    return table.reset_index()
