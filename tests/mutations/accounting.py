"""What counts, broken: :mod:`harness.core.accounting`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.core import accounting
from harness.core import events as kinds
from harness.core.states import LastHop, State
from tests.mutations import golden, mutation

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd


def answers(name: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Let a function answer something else."""
    asked = getattr(accounting, name)
    setattr(accounting, name, lambda *words: change(asked(*words)))


@mutation({golden("broken-by-a-result-twice"): "Kind.KEPT"})
def duplicates_of_one_record_forgotten() -> None:
    """Of the first record that was recorded twice, one recording counts."""

    def once(rows: pd.DataFrame) -> pd.DataFrame:
        again = rows[rows["known"] & rows.duplicated("rid")]
        first = again["rid"].min() if len(again) else -1
        return rows[~((rows["rid"] == first) & rows.duplicated("rid"))]

    answers("recordings", once)


@mutation({golden("broken-ack"): "Kind.KEPT"})
def one_loss_forgotten() -> None:
    """The first record that is lost counts as recorded."""

    def found(table: pd.DataFrame) -> pd.DataFrame:
        lost = table.index[table["state"] == State.LOST][:1]
        table.loc[lost, "state"] = State.RECORDED
        return table

    answers("record_table", found)


@mutation({golden("sealed-kept-though-one-is-refused"): r"'stored': 6"})
def refused_is_stored() -> None:
    """What was refused before the append counts as stored."""
    answers("record_table", lambda table: table.assign(stored=table["stored"] | table["refused"]))


@mutation({golden("void-left-behind"): "1 records are left behind"})
def left_behind_is_recorded() -> None:
    """What waits in the topic counts as recorded."""
    answers("record_table", lambda table: table.assign(state=table["state"].replace(State.LEFT_IN_TOPIC, State.RECORDED)))


@mutation({golden("stuck-consumer"): r"'recorded': 5"})
def stalled_is_recorded() -> None:
    """What is behind an open transaction counts as recorded."""
    answers("record_table", lambda table: table.assign(state=table["state"].replace(State.STALLED, State.RECORDED)))


@mutation({golden("stuck-source"): r"'lost': 1"})
def left_in_source_is_lost() -> None:
    """What the source has not given yet counts as lost."""
    answers("record_table", lambda table: table.assign(state=table["state"].replace(State.LEFT_IN_SOURCE, State.LOST)))


@mutation({golden("void-left-behind"): r"'lost': 1"})
def positions_one_too_high() -> None:
    """A saved position is taken for one more than it is: a record that waits there was passed."""

    def moved(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(offset=frame["offset"] + (frame["event"] == kinds.POSITION))

    answers("frame_of", moved)


@mutation({golden("kept-by-aborting"): "no aborted for k1-3"})
def all_is_visible() -> None:
    """Copies of aborted transactions count as copies that a reader sees."""
    answers("copies", lambda stored: stored.assign(visible=True))


@mutation({golden("broken-by-phantoms"): "1 phantom, which"})
def damaged_is_intact() -> None:
    """A result that is damaged counts as one of its record."""
    asked: Any = accounting.recordings
    accounting.recordings = lambda frame, base: asked(frame.assign(intact=True), base)


@mutation({golden("broken-by-phantoms"): "Kind.VOID"})
def nothing_is_a_phantom() -> None:
    """What nobody offered does not count."""
    answers("phantom", lambda found: found.iloc[:0])


@mutation({golden("broken-by-resurrection"): "Kind.KEPT"})
def nothing_is_resurrected() -> None:
    """What was aborted, and is seen, does not count."""
    answers("resurrected", lambda found: found.iloc[:0])


@mutation({golden("broken-by-tearing"): "Kind.KEPT"})
def nothing_is_torn() -> None:
    """Half a transaction does not count."""
    answers("torn", lambda found: found.iloc[:0])


@mutation({golden("kept-though-it-loses"): "acked, not stored"})
def every_loss_was_acknowledged() -> None:
    """Of each lost record it is said that it was acknowledged and not stored."""
    answers("record_table", lambda table: table.assign(last_hop=table["last_hop"].where(table["last_hop"].isna(), LastHop.ACKED)))


@mutation({golden("kept-by-absorbing"): "forbids duplicates: 1 duplicated"})
def absorbed_is_duplicated() -> None:
    """A copy that the sink turned away counts as a second recording."""
    answers("record_table", lambda table: table.assign(duplicated=table["duplicated"] + table["absorbed"]))
