"""The sentence about a lost or duplicated record says what the history shows, and no cause; what
usually does this stands apart from it.
"""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.states import LastHop, State
from harness.report.page.paths import Paths
from harness.report.page.seen import MARKED, Lines, seen_of, usually

Row = dict[str, Any]


class Tale:
    """A history that is told a second after the other; the consumer's connection is 2."""

    def __init__(self) -> None:
        self.events: list[Row] = []
        self.tell("cell", phase="begun")
        for conn, role in ((1, "producer"), (2, "consumer")):
            self.tell("frame", conn=conn, role=role, dir="request", api="ApiVersions", corr=0)

    def tell(self, event: str, by: str = "wire", **fields: object) -> Tale:
        """Tell one event."""
        t = len(self.events) * 1_000_000_000
        self.events.append({"t": t, "w": 0, "cell": "c", "by": by, "event": event, **fields})
        return self

    def sent(self, record: str, corr: int, *, arrives: bool = True) -> Tale:
        """A request with a record passed, or did not."""
        kind = "sent" if arrives else "unsent"
        return self.tell(kind, record=record, topic="t", partition=0, request=f"1:{corr}")

    def answered(self, record: str, corr: int, error: int = 0, *, reached: bool = True) -> Tale:
        """The broker's answer to it passed."""
        return self.tell(
            "produce_answer", record=record, request=f"1:{corr}", error=error, reached=reached
        )

    def rule(self, phase: str, corr: int, api: str = "Produce", conn: int = 1) -> Tale:
        """The fault's rule did something to a request."""
        return self.tell(
            "rule",
            rule="fault",
            phase=phase,
            conn=conn,
            role={1: "producer", 2: "consumer"}[conn],
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

    def restarted(self, role: str) -> Tale:
        """A program was killed, and started again."""
        return self.life(role, "exited", signal=9).life(role, "started", 2)

    def forgot(self, file: str, after: int = 0) -> Tale:
        """A file went back to what was flushed: it had 10 bytes."""
        return self.tell(
            "fault", "runner", phase="forgot", file=file, bytes_before=10, bytes_after=after
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

    def fetched(self, record: str, *, reached: bool = True) -> Tale:
        """A reader was given it."""
        return self.tell(
            "fetched", record=record, topic="t", partition=0, offset=0, conn=2, reached=reached
        )

    def said(self, **row: object) -> str:
        """Return what is said of the record ``r``."""
        return seen_of(_row(**row), Lines(self.events))

    def usually(self, **row: object) -> str:
        """Return what usually does this."""
        return usually(_row(**row), Lines(self.events))


def _row(hop: LastHop | None = None, **row: object) -> Row:
    lost = State.LOST if hop else State.RECORDED
    rest = {"recordings": 0, "stored_twice": 0, "delivered_twice": 0, "absorbed": 0}
    return {"record": "r", "key": "k", "position": 1, "state": lost, "last_hop": hop} | rest | row


def test_a_relay_that_marks_rows_as_sent_too_early() -> None:
    """The fault discarded one request; the program that was started again passed over the record.
    Nobody can think that lostack had thrown the record away.
    """
    tale = Tale().sent("a", 1).sent("r", 2, arrives=False).rule("discarded", 2)
    tale.restarted("producer").sent("b", 3).sent("c", 4)
    assert tale.said(hop=LastHop.NEVER_SENT) == (
        "its request was discarded by lostack's fault at 5.0 s; the producer was killed at 6.0 s, "
        "was started again at 7.0 s; after that the producer sent 2 others, and this one never "
        "again"
    )
    assert tale.usually(hop=LastHop.NEVER_SENT).startswith("the source's cursor, or the mark")
    path = Paths(tale.events).of(_row(hop=LastHop.NEVER_SENT))
    assert "lostack's fault discarded this Produce request" in [hop.text for hop in path.hops]
    assert path.sentence.startswith("lost: never sent; its request was discarded")
    assert path.usually
    assert "no line of the history shows" in MARKED


def test_what_the_wire_could_not_deliver_is_not_the_faults() -> None:
    """A request whose connection had ended did not arrive, and no rule is named."""
    tale = Tale().sent("r", 2, arrives=False).life("broker", "exited", signal=9)
    told = tale.said(hop=LastHop.NEVER_SENT)
    assert told.startswith("its request of 3.0 s did not reach the broker; the broker was killed")
    assert "lostack" not in told


def test_a_record_that_nobody_sent() -> None:
    """It was taken, and no request with it was seen; who was not started again gave up."""
    tale = Tale().tell("taken", "producer-1", record="r").sent("a", 1)
    told = tale.said(hop=LastHop.NEVER_SENT)
    assert told.startswith("taken from the source at 3.0 s, and no request with it was seen")
    assert told.endswith("after that the producer sent 1 other, and this one never again")
    assert "does not look at what a send returns" in tale.usually(hop=LastHop.NEVER_SENT)


@pytest.mark.parametrize(
    ("tale", "hop", "words"),
    [
        (
            Tale().sent("r", 1).answered("r", 1, 7),
            LastHop.SENT,
            "sent at 3.0 s; the broker refused it (error 7) at 4.0 s",
        ),
        (Tale().sent("r", 1), LastHop.SENT, "sent at 3.0 s; no answer to it was seen"),
        (
            Tale().sent("r", 1).answered("r", 1).life("broker", "exited", signal=9),
            LastHop.ACKED,
            "the broker acknowledged it at 4.0 s; the broker was killed at 5.0 s",
        ),
        (
            Tale().sent("r", 1).forgot("t-0"),
            LastHop.ACKED,
            "at 4.0 s its log went back to what had been flushed",
        ),
        (
            Tale().stored("r", 0).tell("committed", topic="t", partition=0, offset=4),
            LastHop.SKIPPED,
            (
                "stored at partition 0 offset 0; never given to a reader; the position was saved "
                "past it at 4.0 s (to 4)"
            ),
        ),
        (
            Tale()
            .fetched("r")
            .tell("committed", topic="t", partition=0, offset=1)
            .restarted("consumer")
            .fetched("a")
            .stored("r", 0),
            LastHop.DELIVERED,
            (
                "stored at partition 0 offset 0; given to a reader at 3.0 s; the position was "
                "saved past it at 4.0 s (to 1); the consumer was killed at 5.0 s, was started "
                "again at 6.0 s; after that the consumer was given 1 other, and this one never "
                "again; the output has no row of it"
            ),
        ),
        (
            Tale()
            .stored("r", 0)
            .tell("removed", "observer", record="r", offset=0, why="retention"),
            LastHop.DELETED,
            "the broker took it away",
        ),
        (
            Tale()
            .stored("r", 0)
            .tell("sent", record="r", topic="t", request="1:1", attempt="producer-1.3.1")
            .tell("transaction", transaction="producer-1.3", outcome="aborted"),
            LastHop.ABORTED,
            "its transaction was aborted at 5.0 s",
        ),
    ],
)
def test_each_last_hop_has_its_sentence(tale: Tale, hop: LastHop, words: str) -> None:
    """Acts, who did them, and when: in the order in which the record went its way."""
    assert words in tale.said(hop=hop)


def test_every_last_hop_can_be_told_of_an_empty_history() -> None:
    """A history that shows nothing makes no sentence fail; none claims a cause."""
    for hop in LastHop:
        told = Tale().said(hop=hop)
        assert "because" not in told
        assert "None" not in told


def test_a_record_that_was_sent_again_after_a_restart() -> None:
    """Both sends, what became of the program in between, and the answer that it never had."""
    tale = Tale().sent("r", 1).answered("r", 1, reached=False).restarted("producer").sent("r", 2)
    told = tale.stored("r", 0).stored("r", 1).said(recordings=2, stored_twice=1)
    assert told == (
        "sent 2 times, first at 3.0 s and last at 7.0 s; the answer of 4.0 s never reached the "
        "client; in between the producer was killed at 5.0 s, was started again at 6.0 s; stored "
        "2 times: partition 0 offset 0, partition 0 offset 1; the output has 2 rows of it"
    )
    assert "nothing recognises it" in tale.usually(recordings=2, stored_twice=1)


def test_a_record_that_was_delivered_again() -> None:
    """Both deliveries, the death in between, and the commit that the fault kept from the broker."""
    tale = Tale().fetched("r").rule("discarded", 9, "OffsetCommit", conn=2).restarted("consumer")
    told = tale.fetched("r").said(recordings=2, delivered_twice=1)
    assert told == (
        "given to a reader 2 times, first at 3.0 s and last at 7.0 s; the OffsetCommit request was "
        "discarded by lostack's fault at 4.0 s; in between the consumer was killed at 5.0 s, was "
        "started again at 6.0 s; the output has 2 rows of it"
    )


def test_who_ended_by_itself_was_not_killed() -> None:
    """The words follow the kernel's; what the harness ends behind the drain is not told."""
    tale = Tale().sent("r", 1).life("producer", "exited", status=1)
    tale.tell("drain", "runner", phase="completed").life("producer", "exited", signal=9)
    told = tale.said(hop=LastHop.SENT)
    assert "the producer ended by itself (status 1) at 4.0 s" in told
    assert "killed" not in told


def test_of_a_record_that_fared_well_nothing_is_said() -> None:
    """Its path has no sentence, and no cause."""
    tale = Tale().sent("r", 1)
    assert tale.said(recordings=1) == ""
    assert tale.usually(recordings=1) == ""


def test_what_came_after_is_counted_from_what_is_told() -> None:
    """Others that were sent before the program died are not sent after its death."""
    tale = Tale().sent("r", 1).sent("a", 2).life("producer", "exited", signal=9)
    assert tale.said(hop=LastHop.SENT) == (
        "sent at 3.0 s; no answer to it was seen; after that the producer sent 1 other, and this "
        "one never again; the producer was killed at 5.0 s; at rest no log has a copy of it"
    )
    tale = Tale().sent("r", 1).restarted("producer").sent("a", 2).restarted("producer")
    assert tale.sent("b", 3).said(hop=LastHop.SENT) == (
        "sent at 3.0 s; no answer to it was seen; the producer was killed at 4.0 s, was started "
        "again at 5.0 s; after that the producer sent 2 others, and this one never again; the "
        "producer was killed at 7.0 s and so on (4 times); at rest no log has a copy of it"
    )


def test_a_program_that_has_done_its_work_did_not_die() -> None:
    """Status 0 is no death."""
    assert "ended" not in Tale().sent("r", 1).life("producer", "exited", status=0).said(
        hop=LastHop.SENT
    )


def test_of_several_processes_of_a_role_each_is_named() -> None:
    """A death of one and a start of another are no restart."""
    tale = Tale().sent("r", 1)
    for node, phase, more in (("p-1", "exited", {"signal": 9}), ("p-2", "started", {})):
        tale.tell("node", "runner", node=node, role="producer", phase=phase, incarnation=2, **more)
    told = tale.said(hop=LastHop.SENT)
    assert (
        "the producer p-1 was killed at 4.0 s; the producer p-2 was started again at 5.0 s" in told
    )


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


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ([{"phase": "discarded"}], "the OffsetCommit request was discarded by"),
        ([{"phase": "answered", "error": 25}], "the OffsetCommit request was refused by"),
        ([{"phase": "answered", "error": 25, "forward": True}], ""),
        ([{"phase": "discarded"}, {"phase": "delivered"}], ""),
        ([{"phase": "discarded", "role": "producer"}], ""),
    ],
)
def test_a_commit_that_was_kept_back(rules: list[Row], told: str) -> None:
    """Only the reader's own, for good, and by what was done to it."""
    tale = Tale().fetched("r")
    common = {"rule": "fault", "role": "consumer", "conn": 2, "corr": 9, "dir": "request"}
    for rule in rules:
        tale.tell("rule", **{**common, "api": "OffsetCommit", **rule})
    said = tale.fetched("r").said(recordings=2, delivered_twice=1)
    assert (told in said) if told else ("OffsetCommit" not in said)
    late = Tale().fetched("r").fetched("r")
    late.tell("rule", **{**common, "api": "OffsetCommit", "phase": "discarded"})
    assert "OffsetCommit" not in late.said(recordings=2, delivered_twice=1), "it came too late"


def test_sends_of_two_roles_are_told_apart() -> None:
    """A processor sends the same record on."""
    tale = Tale().sent("r", 1).tell("sent", record="r", topic="u", partition=0, request="2:1")
    told = tale.stored("r", 0).stored("r", 1).said(recordings=2, stored_twice=1)
    assert "sent by the producer at 3.0 s; sent by the consumer at 4.0 s" in told


def test_what_only_the_program_says() -> None:
    """It told of a send, and no request was seen."""
    told = Tale().tell("unknown", "producer-1", record="r", error="E").said(hop=LastHop.SENT)
    assert told.startswith(
        "the program says that it sent it, but no request with it was seen on the wire; at 3.0 s "
        "the program was told: nothing certain: E"
    )


def test_a_position_is_past_a_record_when_it_is_past_all_its_copies() -> None:
    """One of two copies that is still to be read is not skipped."""
    tale = Tale().stored("r", 0).stored("r", 5)
    tale.tell("committed", topic="t", partition=0, offset=4)
    assert "saved past" not in tale.said(hop=LastHop.SKIPPED)
    tale.tell("committed", topic="t", partition=0, offset=6)
    assert "the position was saved past the last of its copies at 6.0 s (to 6)" in tale.said(
        hop=LastHop.SKIPPED
    )


def test_a_death_while_its_request_was_held_is_told() -> None:
    """The request is seen to be discarded after the program has died of the fault."""
    tale = Tale().rule("held", 2).life("producer", "exited", signal=9)
    tale.sent("r", 2, arrives=False).rule("discarded", 2).life("producer", "started", 2)
    assert tale.sent("a", 3).said(hop=LastHop.NEVER_SENT) == (
        "the producer was killed at 4.0 s, was started again at 7.0 s; its request was discarded "
        "by lostack's fault at 6.0 s; after that the producer sent 1 other, and this one never "
        "again"
    )
