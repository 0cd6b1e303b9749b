"""Servers beside a pipeline: turns of any connection, and commits of one that speaks PostgreSQL."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Final

import pytest

from harness.protocols.postgres.session import Commit
from harness.protocols.service import Service, begins_postgres
from harness.protocols.tcp.session import Tcp, Turn
from harness.wire.protocol import Frame, Immovable, UnableError, Unframed
from harness.wire.rules import Direction
from tests.contract.protocols import DirectionReader
from tests.wire import test_postgres as pg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.wire.protocol import Protocol

TO, FROM = Direction.REQUEST, Direction.RESPONSE
LIMIT: Final = 1 << 20
SSL: Final = struct.pack(">ii", 8, 80877103)
GRANTED, DENIED = b"S", b"N"


class Talk:
    """A connection, and the names of the frames that were heard on it, in order."""

    def __init__(self, protocol: Protocol, limit: int = LIMIT) -> None:
        self.session = protocol.session(7, limit=limit)
        self.ears = {way: DirectionReader(self.session, way) for way in Direction}
        self.frames: list[tuple[Direction, str, tuple[object, ...]]] = []

    def say(
        self, *said: tuple[Direction, bytes]
    ) -> list[tuple[Direction, str, tuple[object, ...]]]:
        """Let both sides speak; return the new frames: direction, step, and what they answer or are
        called.
        """
        before = len(self.frames)
        for way, data in said:
            heard = self.ears[way].heard
            known = len(heard)
            self.ears[way].take(data)
            self.frames += [
                (way, fed.step, fed.answers if way is FROM else (fed.id,))
                for fed, _ in heard[known:]
                if isinstance(fed, Frame)
            ]
        return self.frames[before:]


def turns(*answers: int) -> list[tuple[Direction, str, tuple[object, ...]]]:
    """Return the frames of questions with these numbers, each with its answer."""
    return [
        each for number in answers for each in ((TO, "Turn", (number,)), (FROM, "Turn", (number,)))
    ]


@pytest.mark.parametrize("protocol", [Tcp(), Service()])
def test_a_turn_is_all_bytes_until_the_other_side_speaks(protocol: Protocol) -> None:
    """Of one connection after the other piece; the answer in pieces is one, too."""
    talk = Talk(protocol)
    assert talk.say(
        (TO, b"SET a 1\n"), (TO, b"SET b 2\n"), (FROM, b"O"), (FROM, b"K\nOK\n")
    ) == turns(1)
    assert talk.say((TO, b"GET a\n"), (FROM, b"1\n"), (FROM, b"news\n")) == turns(2)


@pytest.mark.parametrize("protocol", [Tcp(), Service()])
def test_a_server_that_speaks_first_answers_nobody(protocol: Protocol) -> None:
    """As MySQL's: its greeting is a turn, and the client's first one is the first question."""
    talk = Talk(protocol)
    assert talk.say((FROM, b"\x4a\x00\x00\x00\x0a8.0")) == [(FROM, "Turn", ())]
    assert talk.say((TO, b"\x55\x00\x00\x01"), (FROM, b"\x07\x00\x00\x02")) == turns(1)


def test_what_is_pushed_while_a_question_is_held_is_no_answer_to_it() -> None:
    """It goes on with the server's own turn, and the question is answered behind it."""
    session = Tcp().session(1, limit=LIMIT)
    talk = Talk(Tcp())
    talk.session = session
    talk.ears = {way: DirectionReader(session, way) for way in Direction}
    talk.say((TO, b"SUBSCRIBE\n"), (FROM, b"ok\n"))
    held = session.feed(TO, b"GET a\n")
    assert isinstance(held, Turn)
    assert session.feed(FROM, b"news\n") == Unframed(5)
    session.taken(FROM, 5)
    session.sending(held)
    answer = session.feed(FROM, b"1\n")
    assert isinstance(answer, Frame)
    assert answer.answers == (held.id,) == (2,)


def test_a_turn_belongs_to_its_connection_and_cannot_be_refused() -> None:
    """Nobody knows what would have to stand before it, nor how its server refuses."""
    session = Tcp().session(1, limit=LIMIT)
    frame = session.feed(TO, b"x")
    assert isinstance(frame, Turn)
    assert isinstance(session.move(frame, b"x"), Immovable)
    with pytest.raises(UnableError, match="a Turn cannot be refused by no"):
        session.refuse(frame, b"x", "no")


def test_each_commit_of_somebody_elses_program_is_a_step() -> None:
    """Whatever it commits: no record is looked for. What only reads by itself is none."""
    talk = Talk(Service())
    begun = [(TO, pg.startup("billing")), (FROM, pg.ready())]
    block = [(TO, pg.query("BEGIN")), (FROM, pg.complete("BEGIN") + pg.ready("T"))]
    insert = [(TO, pg.query("insert into t values (1)")), (FROM, pg.complete("INSERT 0 1"))]
    assert talk.say(*begun, *block, *insert, (FROM, pg.ready("T"))) == []
    commit = (TO, pg.query("COMMIT")), (FROM, pg.complete("COMMIT") + pg.ready())
    asked = [(TO, "DatabaseCommit", (1,)), (FROM, "DatabaseCommit", (1,))]
    assert talk.say(*commit) == asked
    by_itself = [*insert, (FROM, pg.ready())]
    assert talk.say(*by_itself) == [(way, step, (2,)) for way, step, _ in asked]
    reads = [(TO, pg.query("select 1 from t")), (FROM, pg.complete("SELECT 1") + pg.ready())]
    assert talk.say(*reads) == []
    prepared = [(TO, pg.executed("insert into t values ($1)", b"1"))]
    done = [(FROM, pg.complete("INSERT 0 1") + pg.ready())]
    assert talk.say(*prepared, *done) == [(way, step, (3,)) for way, step, _ in asked]
    assert talk.session.owner() == "billing"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (pg.complete("COMMIT"), None),
        (pg.complete("ROLLBACK"), "rolled back"),
        (pg.said(b"E", b"C40001\0\0"), "refused"),
    ],
)
def test_a_commit_that_failed_is_told_by_its_answer(answer: bytes, error: str | None) -> None:
    session = Service().session(1, limit=LIMIT)
    ears = {way: DirectionReader(session, way) for way in Direction}
    ears[TO].take(pg.startup("billing"))
    ears[FROM].take(pg.ready())
    ears[TO].take(pg.query("BEGIN"))
    ears[FROM].take(pg.complete("BEGIN") + pg.ready("T"))
    ears[TO].take(pg.query("COMMIT"))
    frame = session.feed(FROM, answer)
    assert isinstance(frame, Commit)
    assert session.read(frame, answer, Service().ledger("k", None)).error == error


def test_tls_on_a_service_passes_unread_as_turns() -> None:
    """Whoever asks PostgreSQL for it and gets it; and who begins with it."""
    hello = b"\x16\x03\x01\x00\x05hello"
    talk = Talk(Service())
    assert talk.say((TO, SSL), (FROM, GRANTED)) == [(FROM, "Turn", ())]
    assert talk.say((TO, hello), (FROM, hello), (TO, b"COMMIT"), (FROM, b"x")) == turns(1, 2)
    assert talk.session.owner() == ""
    assert Talk(Service()).say((TO, hello), (FROM, hello)) == turns(1)


def test_without_tls_postgresql_is_read_behind_the_request_for_it() -> None:
    """As most drivers begin: they ask, are told no, and go on in the clear."""
    talk = Talk(Service())
    talk.say((TO, SSL), (FROM, DENIED), (TO, pg.startup("billing")), (FROM, pg.ready()))
    insert = pg.query("insert into t values (1)")
    assert [step for _, step, _ in talk.say((TO, insert))] == ["DatabaseCommit"]


def test_what_cannot_be_read_of_postgresql_goes_on_as_turns() -> None:
    """A statement above the limit, an answer that contradicts what was asked: nothing is voided."""
    large = Talk(Service(), limit=64)
    large.say((TO, pg.startup("a")), (FROM, pg.ready()))
    huge = pg.query("insert into t values ('" + "x" * 100 + "')")
    assert large.say((TO, huge), (FROM, pg.complete("INSERT 0 1") + pg.ready())) == turns(1)
    odd = Talk(Service())
    odd.say((TO, pg.startup("a")), (FROM, pg.ready()))
    assert odd.say((FROM, pg.complete("COMMIT"))) == [(FROM, "Turn", ())]


@pytest.mark.parametrize(
    ("first", "speaks"),
    [
        (pg.startup("billing")[:8], True),
        (SSL, True),
        (SSL[:1], None),
        (SSL[:7], None),
        (b"*1\r\n$4\r\nPING\r\n", False),
        (b"PING\r\n", False),
        (b"\x16\x03\x01", False),
        (bytes(8), False),
        (struct.pack(">i", 5), False),
        (struct.pack(">ii", 8, 5), False),
    ],
)
def test_postgresql_is_known_by_a_clients_first_message(first: bytes, speaks: bool | None) -> None:
    """Nobody else's client is waited for: what cannot be one is a turn at once."""
    assert begins_postgres(first) is speaks
    fed = Service().session(1, limit=LIMIT).feed(TO, first)
    assert isinstance(fed, Frame) is (speaks is False)


@pytest.mark.parametrize("protocol", [Tcp(), Service()])
def test_any_bytes_pass_whole(protocol: Protocol) -> None:
    """Both ways, in any pieces: what was taken is what was said, and nothing is opaque."""
    chance = random.Random(7)
    for _ in range(300):
        talk = Talk(protocol)
        said: dict[Direction, bytes] = dict.fromkeys(Direction, b"")
        for _ in range(chance.randrange(1, 12)):
            way = chance.choice([*Direction])
            data = chance.choice(_WORDS)(chance)
            said[way] += data
            talk.say((way, data))
        for way in Direction:
            came = b"".join(data for _, data in talk.ears[way].heard)
            assert said[way].startswith(came)
            assert len(said[way]) - len(came) < LIMIT


def _some(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(1, 40))


_WORDS: Sequence[Callable[[random.Random], bytes]] = (
    _some,
    lambda _: pg.startup("a"),
    lambda _: SSL,
    lambda _: pg.ready(),
    lambda _: pg.query("insert into t values (1)"),
    lambda _: pg.complete("COMMIT"),
    lambda chance: pg.query("COMMIT")[: chance.randrange(1, 12)],
    lambda _: GRANTED,
)
