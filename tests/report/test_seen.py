"""The sentence about a lost or duplicated record says what the history shows, and no cause; what
usually does this stands apart from it.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.states import LastHop, State
from harness.report.page.lines import Lines
from harness.report.page.paths import Paths
from harness.report.page.seen import seen_of
from harness.report.page.usual import MARKED
from tests.events import events_of
from tests.report.second_reading import SecondReading

Row = dict[str, Any]


ROLES = {1: "producer", 2: "consumer", 3: "processor"}
"""Whose the connections are."""


class Tale:
    """A history that is told a second after the other. Its first line of its own is at 4 s."""

    def __init__(self) -> None:
        self.events: list[Row] = []
        self.tell("cell", phase="begun")
        for conn, role in ROLES.items():
            self.tell("frame", conn=conn, role=role, dir="request", api="ApiVersions", corr=0)

    def tell(self, event: str, by: str = "wire", **fields: object) -> Tale:
        """Tell one event."""
        t = len(self.events) * 1_000_000_000
        self.events.append({"t": t, "w": 0, "cell": "c", "by": by, "event": event, **fields})
        return self

    def sent(self, record: str, corr: int, conn: int = 1, *, arrives: bool = True) -> Tale:
        """A request with a record passed, or did not."""
        kind = "sent" if arrives else "unsent"
        return self.tell(kind, record=record, topic="t", partition=0, request=f"{conn}:{corr}")

    def answered(
        self, record: str, corr: int, error: int | None = 0, *, reached: bool = True
    ) -> Tale:
        """The broker's answer to it passed."""
        return self.tell(
            "produce_answer", record=record, request=f"1:{corr}", error=error, reached=reached
        )

    def committed(
        self,
        offset: int,
        error: int | None = 0,
        conn: int = 2,
        group: str = "g",
        name: str | None = None,
    ) -> Tale:
        """A reader asked for its position to be saved, and was answered (``None``: it was not). The
        time of the answer is a second later. ``name``: its transactional id.
        """
        at: Row = {"topic": "t", "partition": 0, "offset": offset, "group": group}
        at["request"] = f"{conn}:{len(self.events)}"
        self.tell("committed", transactional_id=name, reached=True, **at)
        if error is not None:
            self.tell("commit_answer", error=error, reached=True, **at)
        return self

    def ended(self, name: str, error: int = 0, *, commit: bool) -> Tale:
        """A transaction was asked to end, and the broker answered."""
        at = {"transactional_id": name, "request": f"3:{len(self.events)}"}
        self.tell("end_txn", commit=commit, reached=True, **at)
        return self.tell("end_txn_answer", error=error, reached=True, **at)

    def rule(self, phase: str, corr: int, api: str = "Produce", conn: int = 1) -> Tale:
        """The fault's rule did something to a request."""
        return self.tell(
            "rule",
            rule="fault",
            phase=phase,
            conn=conn,
            role=ROLES[conn],
            corr=corr,
            dir="request",
            api=api,
            records=["r"],
        )

    def life(self, role: str, phase: str, incarnation: int = 1, **fields: object) -> Tale:
        """Something became of a program."""
        return self.tell(
            "node", "runner", node=role, role=role, phase=phase, incarnation=incarnation, **fields
        )

    def node(self, node: str, phase: str, **fields: object) -> Tale:
        """Something became of a driver."""
        told = {"node": node, "role": "driver", "phase": phase, "incarnation": 1, **fields}
        return self.tell("node", "runner", **told)

    def restarted(self, role: str) -> Tale:
        """A program was killed, and started again."""
        return self.life(role, "exited", signal=9).life(role, "started", 2)

    def forgot(self, file: str, after: int = 0) -> Tale:
        """A file went back to what was flushed: it had 10 bytes."""
        return self.tell(
            "fault",
            "runner",
            phase="forgot",
            node="broker-1",
            file=file,
            bytes_before=10,
            bytes_after=after,
        )

    def stored(self, record: str, offset: int) -> Tale:
        """A log has a copy of it at rest."""
        return self.tell(
            "stored",
            "observer",
            record=record,
            hop="topic",
            topic="t",
            partition=0,
            offset=offset,
            visible=True,
        )

    def fetched(self, record: str, conn: int = 2, *, reached: bool = True) -> Tale:
        """A reader was given it, as the wire saw."""
        return self.tell(
            "fetched", record=record, topic="t", partition=0, offset=0, conn=conn, reached=reached
        )

    def delivered(self, record: str, by: str = "consumer-1") -> Tale:
        """A reader was given it, as it says itself."""
        return self.tell("delivered", by, record=record)

    def said(self, **row: Any) -> str:
        """Return what is said of the record ``r``, if a second reading finds it true. That leaves
        out the number of rows in the output, of which these histories have none.
        """
        told = seen_of(_row(**row), Lines(events_of(self.events)))
        wrong = SecondReading(self.events).false("r", told, _row(**row)) if told else ()
        assert [each for each in wrong if not each.startswith("the output")] == []
        return told

    def usually(self, **row: Any) -> str:
        """Return what usually does this."""
        return Paths(events_of(self.events)).of(_row(**row)).usually


def _row(hop: LastHop | None = None, **row: object) -> Any:
    lost = State.LOST if hop else State.RECORDED
    rest: dict[str, object] = {
        "recordings": 0,
        "stored_twice": 0,
        "delivered_twice": 0,
        "absorbed": 0,
    }
    return {"record": "r", "key": "k", "position": 1, "state": lost, "last_hop": hop} | rest | row


def test_a_relay_that_marks_rows_as_sent_too_early() -> None:
    """The fault discarded one request; the program that was started again passed over the record.
    Nobody can think that lostack had thrown the record away.
    """
    tale = Tale().tell("taken", "producer-1", record="r")
    tale.sent("r", 2, arrives=False).rule("discarded", 2)
    tale.restarted("producer").sent("b", 3).sent("c", 4)
    assert tale.said(hop=LastHop.NEVER_SENT) == (
        "lostack's fault discarded the Produce request of the producer about it at 6.0 s; the "
        "producer was killed at 7.0 s; was started again at 8.0 s; sent 2 others after 8.0 s, and "
        "this one never again; the output does not have it"
    )
    assert tale.usually(hop=LastHop.NEVER_SENT).startswith("the source's cursor, or the mark")
    path = Paths(events_of(tale.events)).of(_row(hop=LastHop.NEVER_SENT))
    assert "lostack's fault discarded this Produce request" in [hop.text for hop in path.hops]
    assert path.sentence.startswith("lost: never sent; lostack's fault discarded the Produce")
    assert "no line of the history shows" in MARKED


def test_what_the_wire_could_not_deliver_is_not_the_faults() -> None:
    tale = Tale().sent("r", 2, arrives=False).life("broker", "exited", signal=9)
    assert tale.said(hop=LastHop.NEVER_SENT) == (
        "a request of the producer with it did not reach the broker at 4.0 s; the broker was "
        "killed at 5.0 s; the output does not have it"
    )


def test_a_record_that_nobody_sent() -> None:
    """It was taken, and no request with it was seen: so it was not sent again, either. Who was not
    started again gave up.
    """
    tale = Tale().life("producer", "started").tell("taken", "producer-1", record="r").sent("a", 1)
    assert tale.said(hop=LastHop.NEVER_SENT) == (
        "the producer took it from the source at 5.0 s; no request with it was seen on the wire; "
        "the producer sent 1 other after 5.0 s, and not this one; the output does not have it"
    )
    assert "does not look at what a send returns" in tale.usually(hop=LastHop.NEVER_SENT)
    told = Tale().tell("taken", "runner", record="r").said(hop=LastHop.NEVER_SENT)
    assert told.startswith("lostack offered it at 4.0 s; no request with it was seen on the wire")


@pytest.mark.parametrize(
    ("tale", "hop", "words"),
    [
        (
            Tale().sent("r", 1).answered("r", 1, 7),
            LastHop.SENT,
            "the producer sent it at 4.0 s; the broker answered the producer with error 7 at 5.0 s",
        ),
        (
            Tale().sent("r", 1),
            LastHop.SENT,
            "the producer sent it at 4.0 s; no answer to it was seen",
        ),
        (
            Tale().sent("r", 1).answered("r", 1).life("broker", "exited", signal=9),
            LastHop.ACKED,
            "the broker acknowledged it to the producer at 5.0 s; was killed at 6.0 s",
        ),
        (
            Tale().sent("r", 1).forgot("t-0"),
            LastHop.ACKED,
            "its log on broker-1 went back to what was flushed at 5.0 s",
        ),
        (
            Tale().sent("r", 1).stored("r", 0).committed(4),
            LastHop.SKIPPED,
            (
                "the consumer saved position 4 of partition 0 for group g, past it, at 7.0 s; no "
                "reader was seen to be given it; stored at partition 0 offset 0"
            ),
        ),
        (
            Tale().fetched("r").committed(1).restarted("consumer").fetched("a").stored("r", 0),
            LastHop.DELIVERED,
            (
                "the consumer was given it at 4.0 s; saved position 1 of partition 0 for group g, "
                "past it, at 6.0 s; was killed at 7.0 s; was started again at 8.0 s; was given 1 "
                "other after 8.0 s, and this one never again; stored at partition 0 offset 0; the "
                "output does not have it"
            ),
        ),
        (
            Tale()
            .stored("r", 0)
            .tell("removed", "observer", record="r", partition=0, offset=0, why="retention"),
            LastHop.DELETED,
            "the broker took it away from partition 0 offset 0 (retention)",
        ),
        (
            Tale().fetched("r").tell("acknowledged", record="r", request="2:1", how="ack"),
            LastHop.GIVEN_UP,
            "the consumer was given it at 4.0 s; acknowledged it at 5.0 s",
        ),
    ],
)
def test_each_last_hop_has_its_sentence(tale: Tale, hop: LastHop, words: str) -> None:
    """Acts, who did them, and when: in the order of time."""
    assert words in tale.said(hop=hop)


def test_every_last_hop_can_be_told_of_an_empty_history() -> None:
    """A history that shows nothing makes no sentence fail; none claims a cause."""
    for hop in LastHop:
        told = Tale().said(hop=hop)
        assert "because" not in told
        assert "None" not in told


# -- what is counted as saved ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tale", "saved"),
    [
        (Tale().committed(4), True),
        (Tale().committed(4, error=25), False),
        (Tale().committed(4, error=None), False),
        (Tale().committed(4, name="x").ended("x", commit=True), True),
        (Tale().committed(4, name="x").ended("x", commit=False), False),
        (Tale().committed(4, name="x").ended("x", 51, commit=True), False),
        (Tale().committed(4, name="x"), False),
        (Tale().committed(4, name="x").ended("y", commit=True), False),
        (
            Tale()
            .committed(4, name="x")
            .tell("init_producer", transactional_id="x", request="3:9", reached=True)
            .ended("x", commit=True),
            False,
        ),
        (
            Tale().committed(4, name="x").ended("x", commit=False).ended("x", commit=True),
            False,
        ),
        (Tale().committed(1), False),
    ],
    ids=[
        "saved",
        "refused",
        "not answered",
        "committed",
        "aborted",
        "its commit was refused",
        "never ended",
        "another's commit",
        "another producer began",
        "the next transaction was committed",
        "not past it",
    ],
)
def test_a_position_is_saved_when_the_broker_says_so(tale: Tale, *, saved: bool) -> None:
    """A position in a transaction is saved if that was committed."""
    told = tale.stored("r", 1).said(hop=LastHop.SKIPPED)
    assert ("past it" in told) == saved
    hops = Paths(events_of(tale.events)).of(_row(hop=LastHop.SKIPPED)).hops
    assert any("saved past it" in hop.text for hop in hops) == saved


def test_a_position_is_of_a_group_and_of_who_asked_for_it() -> None:
    """Two groups read the log; of each stands when its own position was past the record."""
    tale = Tale().fetched("r").committed(4, conn=3, group="other").committed(1).committed(9)
    told = tale.stored("r", 1).said(hop=LastHop.DELIVERED)
    assert (
        "the processor saved position 4 of partition 0 for group other, past it, at 6.0 s" in told
    )
    assert "the consumer saved position 9 of partition 0 for group g, past it, at 10.0 s" in told


def test_a_position_is_past_a_record_when_it_is_past_all_its_copies() -> None:
    """One of two copies that is still to be read is not skipped. A group that is past one copy and
    another that is past the other are not past both.
    """
    tale = Tale().stored("r", 0).stored("r", 5).committed(4)
    assert "past" not in tale.said(hop=LastHop.SKIPPED)
    tale.committed(6)
    assert "saved position 6 of partition 0 for group g, past the last of its copies, at 9.0 s" in (
        tale.said(hop=LastHop.SKIPPED)
    )


@pytest.mark.parametrize("other", [{"topic": "u"}, {"partition": 1}])
def test_a_position_of_another_log_is_not_past_it(other: Row) -> None:
    tale = Tale().stored("r", 0)
    tale.events[-1] |= other
    assert "past" not in tale.committed(4).said(hop=LastHop.SKIPPED)


# -- by role ---------------------------------------------------------------------------------------


def test_sends_of_two_roles_are_told_apart() -> None:
    """A processor sends the same record on; each answer is told of whom it was for."""
    tale = Tale().sent("r", 1).sent("r", 1, conn=3).answered("r", 1).stored("r", 0).stored("r", 1)
    told = tale.said(recordings=2, stored_twice=1)
    assert told.startswith(
        "the producer sent it at 4.0 s; the processor sent it at 5.0 s; the broker acknowledged it "
        "to the producer at 6.0 s; stored"
    )


def test_deliveries_to_two_roles_are_told_apart() -> None:
    """A stage and the sink read the record once each, and the stage again after its death: only
    that is a second delivery. Others are counted by role as well.
    """
    tale = Tale().fetched("r", conn=3).fetched("r").restarted("processor").fetched("r", conn=3)
    told = tale.said(recordings=2, delivered_twice=1)
    assert told.startswith(
        "the processor was given it at 4.0 s and 8.0 s; the consumer was given it at 5.0 s; the "
        "processor was killed at 6.0 s; was started again at 7.0 s; "
    )
    told = tale.fetched("a").fetched("b", conn=3).fetched("c", conn=3).said(hop=LastHop.DELIVERED)
    assert "; was given 2 others after 8.0 s, and this one never again" in told
    assert "the consumer was given 3 others after 5.0 s" not in told
    assert "the consumer was given 1 other after 5.0 s, and this one never again" in told


def test_of_whom_the_wire_saw_nothing_its_own_word_counts() -> None:
    """A queue's reader, or one over HTTP, that says what it was given. What the wire saw of another
    role counts nothing of it.
    """
    tale = Tale().life("consumer", "started").fetched("a", conn=3).delivered("r")
    tale.delivered("a").delivered("b")
    told = tale.said(hop=LastHop.DELIVERED)
    assert told == (
        "the consumer was given it at 6.0 s; was given 2 others after 6.0 s, and this one never "
        "again; the output does not have it"
    )


def test_where_the_wire_saw_a_reader_its_own_word_is_not_told_again() -> None:
    tale = Tale().life("consumer", "started").fetched("r").delivered("r").fetched("a")
    assert (
        tale.delivered("a")
        .said(hop=LastHop.DELIVERED)
        .startswith(
            "the consumer was given it at 5.0 s; was given 1 other after 6.0 s, and this one never"
        )
    )


def test_a_program_that_no_line_names() -> None:
    """It may be any; so no other records are counted, of no role."""
    tale = Tale().fetched("r").fetched("a").fetched("b", conn=9)
    assert "other" not in tale.said(hop=LastHop.DELIVERED)
    tale = Tale().life("consumer", "started").delivered("r").delivered("a").fetched("r", conn=9)
    told = tale.delivered("b").said(hop=LastHop.DELIVERED)
    assert "was given 1 other after 7.0 s, and this one never again" in told
    tale = Tale().sent("r", 1).sent("a", 2).sent("r", 1, conn=9)
    told = tale.said(hop=LastHop.SENT)
    assert "the producer sent it at 4.0 s; a program sent it at 6.0 s" in told
    assert "other" not in told


# -- what was held ---------------------------------------------------------------------------------


def test_a_held_send_is_told() -> None:
    tale = Tale().rule("held", 2).life("producer", "exited", signal=9)
    tale.sent("r", 2, arrives=False).rule("discarded", 2).life("producer", "started", 2)
    assert tale.sent("a", 3).said(hop=LastHop.NEVER_SENT) == (
        "lostack's fault held the Produce request of the producer about it at 4.0 s; the producer "
        "was killed at 5.0 s; lostack's fault discarded the Produce request of the producer about "
        "it at 7.0 s; the producer was started again at 8.0 s; sent 1 other after 8.0 s, and this "
        "one never again; the output does not have it"
    )


def test_a_held_send_that_was_delivered_late_is_told() -> None:
    tale = Tale().rule("held", 2).sent("r", 3).sent("r", 2).rule("delivered", 2)
    assert (
        tale.stored("r", 0)
        .stored("r", 1)
        .said(recordings=2, stored_twice=1)
        .startswith(
            "lostack's fault held the Produce request of the producer about it at 4.0 s; the "
            "producer sent it at 5.0 s and 6.0 s; lostack's fault delivered the Produce request of "
            "the producer about it late at 7.0 s; stored"
        )
    )


def test_what_waves_of_load_hold_is_no_fault() -> None:
    """They hold records back so that there is load behind the fault."""
    tale = Tale().rule("held", 1)
    tale.events[-1]["rule"] = "second-wave"
    assert "fault" not in tale.sent("r", 1).said(hop=LastHop.SENT)


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("discarded", "discarded the OffsetCommit request of the consumer about it"),
        ("answered", "answered the OffsetCommit request of the consumer about it in the broker's"),
        ("hit", ""),
        ("armed", ""),
    ],
)
def test_a_commit_that_was_kept_back(phase: str, words: str) -> None:
    """By what was done to it; between two deliveries."""
    tale = Tale().fetched("r").rule(phase, 9, "OffsetCommit", conn=2).fetched("r")
    told = tale.said(recordings=2, delivered_twice=1)
    assert f"; lostack's fault {words}" in told if words else "fault" not in told
    assert "OffsetCommit" not in tale.sent("r", 1).said(hop=LastHop.SENT)


# -- answers ---------------------------------------------------------------------------------------


def test_an_aborted_send_is_told() -> None:
    tale = (
        Tale()
        .life("producer", "started")
        .tell("sent", record="r", topic="t", request="1:1", attempt="producer-1.3.1")
    )
    tale.answered("r", 1)
    for outcome in ("begun", "aborted"):
        tale.tell("transaction", "producer-1", transaction="producer-1.3", outcome=outcome)
    tale.stored("r", 0).events[-1]["visible"] = False
    assert tale.said(hop=LastHop.ABORTED) == (
        "the producer sent it at 5.0 s; the broker acknowledged it to the producer at 6.0 s; the "
        "producer was told of a transaction with it: aborted, at 8.0 s; stored where no committed "
        "reader sees it, at partition 0 offset 0; the output does not have it"
    )


def test_every_answer_is_told() -> None:
    """An acknowledgement stands beside a later refusal; an answer that says nothing of the record
    is none of the two.
    """
    tale = Tale().sent("r", 1).answered("r", 1).sent("r", 2).answered("r", 2, 19)
    told = tale.sent("r", 3).answered("r", 3, None).said(hop=LastHop.SENT)
    assert "the broker acknowledged it to the producer at 5.0 s; " in told
    assert "answered the producer with error 19 at 7.0 s" in told
    assert "9.0 s" not in told
    path = Paths(events_of(tale.events)).of(_row(hop=LastHop.SENT))
    assert [hop.text for hop in path.hops if "answer" in hop.text][-1].endswith("nothing of it")


def test_an_answer_that_did_not_arrive() -> None:
    tale = Tale().life("producer", "started").sent("r", 1).answered("r", 1, reached=False)
    told = tale.tell("unknown", "producer-1", record="r", error="E").said(hop=LastHop.SENT)
    assert "the broker's acknowledgement of it did not reach the producer at 6.0 s" in told
    assert "the producer could not know whether it is stored (E) at 7.0 s" in told
    told = tale.answered("r", 1, 7, reached=False).said(hop=LastHop.SENT)
    assert "the broker's answer with error 7 did not reach the producer at 8.0 s" in told


def test_what_the_wire_saw_of_an_answer_is_not_told_again() -> None:
    """The program says of each acknowledgement that it got it; where the wire saw none, that is
    told.
    """
    tale = Tale().life("producer", "started").sent("r", 1).answered("r", 1)
    tale.tell("acked", "producer-1", record="r")
    assert "was told that" not in tale.said(hop=LastHop.ACKED)
    tale = Tale().life("producer", "started").sent("r", 1).tell("acked", "producer-1", record="r")
    assert "was told that it is stored at 6.0 s" in tale.said(hop=LastHop.ACKED)


def test_what_only_the_program_says() -> None:
    tale = Tale().life("producer", "started").tell("unknown", "producer-1", record="r", error="E")
    assert tale.said(hop=LastHop.SENT).startswith(
        "the producer could not know whether it is stored (E) at 5.0 s; no request with it was "
        "seen on the wire"
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"how": "nack"}, "the consumer answered it with nack at 5.0 s"),
        ({"how": "ack", "transactional_id": "x"}, "acknowledged it in a transaction at 5.0 s"),
        ({"how": "ack", "reached": False}, "the ack of the consumer for it did not reach the bro"),
        ({"how": "ack", "outcome": "refused"}, "the broker refused the ack of the consumer for it"),
        ({"how": "ack", "outcome": "taken"}, ""),
    ],
)
def test_what_a_reader_said_of_it_to_a_queue(fields: Row, words: str) -> None:
    """In its own words; an acknowledgement in a transaction counts only if that is committed."""
    tale = (
        Tale()
        .fetched("r", reached=False)
        .tell("acknowledged", record="r", request="2:1", **({"outcome": None, **fields}))
    )
    told = tale.said(hop=LastHop.GIVEN_UP)
    assert "an answer with it did not reach the consumer at 4.0 s; " in told
    assert words in told if words else "ack" not in told


# -- sent, or given, again -------------------------------------------------------------------------


def test_a_record_that_was_sent_again_after_a_restart() -> None:
    """Both sends, what became of the program in between, and the answer that it never had."""
    tale = Tale().sent("r", 1).answered("r", 1, reached=False).restarted("producer").sent("r", 2)
    told = tale.stored("r", 0).stored("r", 1).said(recordings=2, stored_twice=1)
    assert told == (
        "the producer sent it at 4.0 s and 8.0 s; the broker's acknowledgement of it did not reach "
        "the producer at 5.0 s; the producer was killed at 6.0 s; was started again at 7.0 s; "
        "stored at partition 0 offset 0, partition 0 offset 1; the output has it 2 times"
    )
    assert "nothing recognises it" in tale.usually(recordings=2, stored_twice=1)


def test_a_record_that_was_delivered_again() -> None:
    """Both deliveries, the death in between, and the commit that the fault kept from the broker."""
    tale = Tale().fetched("r").rule("discarded", 9, "OffsetCommit", conn=2).restarted("consumer")
    assert tale.fetched("r").said(recordings=2, delivered_twice=1) == (
        "the consumer was given it at 4.0 s and 8.0 s; lostack's fault discarded the OffsetCommit "
        "request of the consumer about it at 5.0 s; the consumer was killed at 6.0 s; was started "
        "again at 7.0 s; the output has it 2 times"
    )


def test_only_ends_between_two_deliveries_are_told() -> None:
    """Those before the first and behind the last have nothing to do with it. Of a lost record all
    are told until the drain.
    """
    tale = Tale().restarted("consumer").fetched("r").restarted("producer").fetched("r")
    told = tale.restarted("broker").said(recordings=2, delivered_twice=1)
    assert "the producer was killed at 7.0 s; was started again at 8.0 s" in told
    assert "killed at 4.0 s" not in told
    assert "killed at 10.0 s" not in told
    assert "the broker was killed at 10.0 s" in tale.said(hop=LastHop.DELIVERED)


def test_what_happens_often_is_counted() -> None:
    tale = Tale().sent("r", 1)
    for _ in range(4):
        tale.restarted("producer")
    told = tale.said(hop=LastHop.SENT)
    assert "; was killed 4 times, first at 5.0 s and last at 11.0 s; " in told
    assert "was started again 4 times, first at 6.0 s and last at 12.0 s; " in told


def test_others_are_counted_from_a_moment_that_is_named() -> None:
    """The last restart is not it, if nothing came after that; others that were sent before the
    program died are not sent after its death.
    """
    tale = Tale().sent("r", 1).sent("a", 2).life("producer", "exited", signal=9)
    assert tale.said(hop=LastHop.SENT) == (
        "the producer sent it at 4.0 s; was killed at 6.0 s; no answer to it was seen; the "
        "producer sent 1 other after 4.0 s, and this one never again; the output does not have it"
    )
    tale = Tale().sent("r", 1).restarted("producer").sent("a", 2).restarted("producer")
    told = tale.sent("b", 3).sent("b", 4).said(hop=LastHop.SENT)
    assert "sent 2 others after 6.0 s, and this one never again" in told


@pytest.mark.parametrize("hop", [LastHop.SENT, LastHop.DELIVERED, LastHop.NEVER_SENT])
def test_nothing_is_said_of_what_did_not_come_after(hop: LastHop) -> None:
    """A broker's queue has no topic, and a wire may see nothing of a program."""
    tale = Tale().tell("sent", record="r", topic="q", request="1:1").fetched("r")
    tale.tell("stored", "observer", record="r", hop="topic", queue="q", place="1", visible=True)
    tale.tell("sent", record="a", topic="q", request="1:2").fetched("a")
    told = tale.said(hop=hop)
    assert "nothing more" not in told
    assert "1 other after" in told
    assert "other" not in Tale().sent("r", 1).fetched("r").said(hop=hop)


# -- processes -------------------------------------------------------------------------------------


def test_who_ended_by_itself_was_not_killed() -> None:
    """The words follow the kernel's; what the harness ends behind the drain is not told."""
    tale = Tale().sent("r", 1).life("producer", "exited", status=1)
    tale.tell("drain", "runner", phase="completed").life("producer", "exited", signal=9)
    told = tale.said(hop=LastHop.SENT)
    assert "ended by itself (status 1) at 5.0 s" in told
    assert "killed" not in told


def test_a_program_that_has_done_its_work_did_not_die() -> None:
    """Status 0 is no death."""
    tale = Tale().sent("r", 1).life("producer", "exited", status=0)
    assert "ended" not in tale.said(hop=LastHop.SENT)


@pytest.mark.parametrize(
    ("role", "node", "words"),
    [
        ("controller", "controller-4", "controller-4 was killed"),
        ("controller", "broker-2", "the controller broker-2 was killed"),
        ("leader", "broker-1", "the leader broker-1 was killed"),
        ("broker", "broker-1", "broker-1 was killed"),
        ("database", "database", "the database was killed"),
        ("producer", "p-1", "the producer p-1 was killed"),
    ],
)
def test_who_ended_is_called_what_it_is(role: str, node: str, words: str) -> None:
    """A controller is no broker, and of several processes of a role each is named."""
    tale = Tale().sent("r", 1)
    tale.tell("node", "runner", node=node, role=role, phase="exited", signal=9, incarnation=1)
    told = tale.said(hop=LastHop.SENT)
    assert f"{words} at 5.0 s" in told
    assert "the broker was" not in told


def test_a_broker_that_came_back_is_told() -> None:
    """The first process of a broker has no number; a node that is there for the first time did not
    come back.
    """
    tale = Tale().sent("r", 1)
    for node, phase in (("broker-1", "exited"), ("broker-1", "started"), ("broker-2", "started")):
        tale.tell("node", "runner", node=node, role="broker", phase=phase, incarnation=0, signal=9)
    told = tale.said(hop=LastHop.SENT)
    assert "broker-1 was killed at 5.0 s; was started again at 6.0 s; no answer" in told


@pytest.mark.parametrize(
    "tale",
    [
        Tale().forgot("t-0").sent("r", 1),
        Tale().sent("r", 1).forgot("t-1"),
        Tale().sent("r", 1).forgot("t-0", after=10),
        Tale().sent("r", 1).tell("fault", "runner", phase="forgot", group="g", positions={}),
    ],
    ids=["before it was sent", "another partition", "no byte was lost", "a group's positions"],
)
def test_another_loss_of_power_is_not_told_of_it(tale: Tale) -> None:
    """Only that its own partition lost bytes after it was sent."""
    assert "flushed" not in tale.said(hop=LastHop.ACKED)


def test_of_a_record_that_fared_well_nothing_is_said() -> None:
    tale = Tale().sent("r", 1)
    assert tale.said(recordings=1) == ""
    assert tale.usually(recordings=1) == ""


def test_processes_of_one_role_are_told_apart() -> None:
    """A paused driver was given nothing; its stand-in was."""
    tale = Tale().node("driver", "started").node("stand-in", "started")
    tale.stored("r", 3).delivered("r", "driver-1").node("driver", "paused")
    tale.delivered("r", "stand-in-1").node("driver", "resumed").delivered("b", "stand-in-1")
    said = tale.said(state=State.RECORDED, recordings=2, delivered_twice=1)
    assert said.startswith(
        "the driver was given it at 7.0 s; was paused at 8.0 s; "
        "the driver stand-in was given it at 9.0 s; "
    )
    lost = tale.said(hop=LastHop.DELIVERED)
    assert "the drivers were given 1 other after 9.0 s, and this one never again" in lost


def test_of_several_processes_the_wire_may_not_tell_which_it_was() -> None:
    tale = Tale().node("driver", "started").node("stand-in", "started")
    tale.tell("owner", "runner", conn=9, role="driver").stored("r", 3).fetched("r", 9)
    assert "a driver was given it at 8.0 s" in tale.said(hop=LastHop.DELIVERED)


@pytest.mark.parametrize(
    ("ends", "stood_by", "words"),
    [
        (True, False, "was started again at 8.0 s"),
        (True, True, "took the place of another at 8.0 s"),
        (False, False, "took the place of another at 8.0 s"),
    ],
)
def test_who_takes_a_place_was_not_started_again(*, ends: bool, stood_by: bool, words: str) -> None:
    """It stood by, or its predecessor lives: only paused, or elsewhere."""
    tale = Tale().node("driver", "started").stored("r", 3).delivered("r", "driver-1")
    tale.node("driver", "exited", signal=9) if ends else tale.node("driver", "paused")
    tale.tell(
        "node",
        "runner",
        node="driver",
        role="driver",
        phase="started",
        incarnation=2,
        stood_by=stood_by,
    )
    assert words in tale.said(hop=LastHop.DELIVERED)
