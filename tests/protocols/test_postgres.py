"""What statements do to a transaction, and what a server's answers say of what was predicted."""

from __future__ import annotations

import pytest

from harness.model import events as kinds
from harness.model.history import Line
from harness.model.record import Record
from harness.protocols.postgres.course import OpenStatements
from harness.protocols.postgres.session import Commit, Postgres
from harness.protocols.postgres.statements import Does, read
from harness.wire.protocol import Fed, Frame, Need, Opaque, Unframed
from harness.wire.rules import Direction
from tests.protocols.conversation import check_lines
from tests.wire.test_postgres import complete, executed, query, ready, said, startup

TO, FROM = Direction.REQUEST, Direction.RESPONSE
VALUE = Record("k0-1", "k0", 1, "x").encode("key")


@pytest.mark.parametrize(
    ("text", "does"),
    [
        (b"COMMIT", [Does.COMMIT]),
        (b" -- commit\n\tend transaction;", [Does.COMMIT]),
        (b"/* x */ COMMIT", [Does.COMMIT]),
        (b"/* /* x */ ; */ COMMIT", [Does.COMMIT]),
        (b"/* never closed; COMMIT", []),
        (b"insert into t values ('done; end of story')", [Does.NOTHING]),
        (b"insert into t values ('it''s; commit')", [Does.NOTHING]),
        (b"insert into t values (E'it\\'; commit; '); rollback", [Does.NOTHING, Does.ROLLBACK]),
        (b"insert into t values ('\\'); commit", [Does.NOTHING, Does.COMMIT]),
        (b"select $$ ; commit; $$; select $a$ $$; commit; $a$", [Does.READS, Does.READS]),
        (b"select $1; commit", [Does.READS, Does.COMMIT]),
        (b'select 1 as "a;commit;"', [Does.READS]),
        (b"select 'never closed; commit", [Does.READS]),
        (b"COMMIT PREPARED 'x'; ROLLBACK PREPARED 'x'", [Does.NOTHING, Does.NOTHING]),
        (
            b"rollback to savepoint s; rollback work to s; ROLLBACK",
            [Does.NOTHING, Does.NOTHING, Does.ROLLBACK],
        ),
        (
            b"commit and chain; commit transaction and no chain; abort and chain",
            [Does.COMMIT_AND_BEGIN, Does.COMMIT, Does.ROLLBACK_AND_BEGIN],
        ),
        (b"prepare transaction 'x'; prepare s as select 1", [Does.PREPARE, Does.NOTHING]),
        (b"start transaction isolation level serializable; begin", [Does.BEGIN, Does.BEGIN]),
        (b"select '(', x from t where x = '('; show all; -- (", [Does.READS, Does.READS]),
        (b"select a, b, c, d, e, f(1)", [Does.NOTHING]),
        (b"select a, b, c, d, e, f into t", [Does.NOTHING]),
        (b"with x as (insert into t values (1)) select 1", [Does.NOTHING]),
        (b";;  ; ", []),
        (b"", []),
    ],
)
def test_what_statements_do_is_read_by_their_words(text: bytes, does: list[Does]) -> None:
    assert read(text) == does


class Talk:
    """A session, and what it makes of messages."""

    def __init__(self) -> None:
        self.protocol = Postgres()
        self.session = self.protocol.session(1, limit=1 << 20)
        self.ledger = self.protocol.ledger("key", None)
        self.hear(TO, startup("key.consumer.1"))
        self.hear(FROM, ready())

    def hear(self, way: Direction, data: bytes) -> list[Fed]:
        """Feed messages, byte by byte; return what they are."""
        found: list[Fed] = []
        seen = 0
        while data:
            fed = self.session.feed(way, data[:seen])
            if isinstance(fed, Need):
                seen += 1
                continue
            assert isinstance(fed, Unframed | Frame)
            found.append(fed)
            self.session.taken(way, fed.size)
            data, seen = data[fed.size :], 0
        return found

    def commits(self, way: Direction, data: bytes) -> list[tuple[object, ...]]:
        """Return the lines that the commits among messages, or their answers, come to."""
        frames = [fed for fed in self.hear(way, data) if isinstance(fed, Commit)]
        lines = [
            line
            for frame in frames
            for line in self.session.settled(frame, self.ledger, reached=True)
        ]
        check_lines([*(Line("frame", frame.facts) for frame in frames), *lines])
        return [
            (line.record, line.request, line.outcome)
            for line in lines
            if isinstance(line, kinds.DatabaseCommit)
        ]

    def because(self, way: Direction, data: bytes) -> list[str]:
        """Return what voids a cell of messages."""
        return [
            fed.because
            for fed in self.hear(way, data)
            if isinstance(fed, Unframed | Frame) and fed.because
        ]


@pytest.fixture
def talk() -> Talk:
    """A connection that is ready."""
    return Talk()


BEGUN = query("BEGIN") + executed("INSERT", VALUE)
BEGUN_ANSWERED = complete("BEGIN") + ready("T") + complete("INSERT 0 1") + ready("T")


def test_a_block_is_committed_by_its_commit(talk: Talk) -> None:
    """By nothing before, and once."""
    assert talk.commits(TO, BEGUN) == []
    assert talk.commits(TO, query("commit") + query("commit")) == [("k0-1", "1:1", None)]
    assert talk.commits(FROM, BEGUN_ANSWERED + complete("COMMIT") + ready()) == [
        ("k0-1", "1:1", "committed")
    ]
    assert talk.because(FROM, complete("COMMIT") + ready()) == []


def test_a_rollback_takes_its_records_along(talk: Talk) -> None:
    assert talk.commits(TO, BEGUN + query("rollback") + query("begin") + query("commit")) == []


def test_a_rollback_to_a_savepoint_is_no_answer_to_the_commit_behind_it(talk: Talk) -> None:
    """Though it says ROLLBACK, as well."""
    assert talk.commits(TO, BEGUN + query("rollback to s; commit")) == [("k0-1", "1:1", None)]
    answers = BEGUN_ANSWERED + complete("ROLLBACK") + complete("COMMIT") + ready()
    assert talk.commits(FROM, answers) == [("k0-1", "1:1", "committed")]


def test_a_statement_alone_commits_itself(talk: Talk) -> None:
    """Answered by the last of its CommandCompletes, which the server says when it has committed."""
    text = f"insert into t values ('{VALUE.decode()}'); select 1"  # noqa: S608 - nobody runs it
    assert talk.commits(TO, query("select 1")) == []
    assert talk.commits(TO, query(text)) == [("k0-1", "1:1", None)]
    assert talk.commits(FROM, complete("SELECT 1") + ready() + complete("INSERT 0 1")) == []
    assert talk.commits(FROM, complete("SELECT 1") + ready()) == [("k0-1", "1:1", "committed")]


def test_a_sync_commits_what_was_run_before_it(talk: Talk) -> None:
    pipeline = executed("INSERT", VALUE).removesuffix(said(b"S")) + executed(
        "INSERT", b"nothing of ours"
    )
    frames = [fed for fed in talk.hear(TO, pipeline) if isinstance(fed, Frame)]
    assert [frame.size for frame in frames] == [len(said(b"S"))]
    assert talk.commits(FROM, complete("INSERT 0 1") * 2) == []
    assert talk.commits(FROM, ready()) == [("k0-1", "1:1", "committed")]


def test_an_error_answers_all_that_it_prevents(talk: Talk) -> None:
    """In a pipeline the server leaves out whatever stands before the Sync."""
    assert talk.commits(TO, executed("INSERT", VALUE) + BEGUN + query("COMMIT")) == [
        ("k0-1", "1:1", None),
        ("k0-1", "1:2", None),
    ]
    assert talk.commits(FROM, said(b"E", b"SERROR\0\0")) == [("k0-1", "1:1", "refused")]
    assert talk.because(FROM, ready() + BEGUN_ANSWERED) == []
    assert talk.commits(FROM, said(b"E", b"SERROR\0\0") + ready()) == [("k0-1", "1:2", "refused")]


def test_a_chained_commit_opens_the_next_block(talk: Talk) -> None:
    assert talk.commits(TO, BEGUN + query("commit and chain") + executed("INSERT", VALUE)) == [
        ("k0-1", "1:1", None)
    ]
    assert talk.commits(TO, query("commit")) == [("k0-1", "1:2", None)]


@pytest.mark.parametrize(
    ("asked", "answered", "says"),
    [
        (
            BEGUN + query("commit"),
            BEGUN_ANSWERED + complete("SELECT 1") + ready("T"),
            "predicted to commit was answered by SELECT 1",
        ),
        (
            BEGUN + query("call p()"),
            BEGUN_ANSWERED + complete("COMMIT") + ready(),
            "not predicted to commit was answered by COMMIT",
        ),
        (
            BEGUN + query("call p()"),
            BEGUN_ANSWERED + complete("CALL") + ready(),
            "ended, unpredicted",
        ),
        (
            BEGUN + query("commit"),
            BEGUN_ANSWERED + complete("COMMIT") + ready("T"),
            "is open, but was predicted to have ended",
        ),
        (b"", complete("COMMIT"), "no client was seen to send"),
        (query("begin; commit; begin; commit"), b"", ""),
    ],
)
def test_what_contradicts_the_prediction_is_told(
    talk: Talk, asked: bytes, answered: bytes, says: str
) -> None:
    told = talk.because(TO, asked) + talk.because(FROM, answered)
    assert says in " ".join(told)
    assert told


def test_a_block_that_failed_is_no_contradiction(talk: Talk) -> None:
    """Nor is what is asked in it, nor its COMMIT, which is answered by ROLLBACK."""
    talk.hear(
        TO, BEGUN + query("nonsense") + query("select 1") + query("COMMIT") + query("select 1")
    )
    error = said(b"E", b"SERROR\0\0")
    answers = BEGUN_ANSWERED + error + ready("E") + error + ready("E")
    assert talk.because(FROM, answers) == []
    assert talk.commits(FROM, complete("ROLLBACK") + ready()) == [("k0-1", "1:1", "rolled back")]
    assert talk.because(FROM, complete("SELECT 1") + ready()) == []


def test_a_begin_that_is_refused_makes_what_follows_unsure_and_no_contradiction(talk: Talk) -> None:
    """In a pipeline it was asked for before the refusal came."""
    talk.hear(TO, query("begin nonsense") + query("select 1") + query("commit"))
    answers = (
        said(b"E", b"SERROR\0\0")
        + ready()
        + complete("SELECT 1")
        + ready()
        + complete("COMMIT")
        + ready()
    )
    assert talk.because(FROM, answers) == []


def test_what_is_above_the_limit_voids_and_is_no_contradiction(talk: Talk) -> None:
    large = query("insert into t values ('" + "x" * (1 << 20) + "')")
    fed = talk.session.feed(TO, large)
    assert isinstance(fed, Unframed)
    assert "above the limit" in str(fed.because)
    talk.session.taken(TO, fed.size)
    assert talk.because(FROM, complete("INSERT 0 1") + complete("COMMIT") + ready("T")) == []


@pytest.mark.parametrize(
    "data",
    [said(b"P", b"name"), said(b"B", b"portal\0name"), said(b"P"), b"\1\0\0\0\5", b"Q\0\0\0\3"],
)
def test_a_message_that_cannot_be_is_opaque(talk: Talk, data: bytes) -> None:
    assert isinstance(talk.session.feed(TO, data), Opaque)


def test_answers_nobody_waits_for_are_nothing() -> None:
    """As when the server is told to end, and says so to everybody."""
    course: OpenStatements[int] = OpenStatements()
    assert course.refused().commits == []
    assert course.ready(b"I").because is None
    assert course.done(b"SELECT 1").because is None
