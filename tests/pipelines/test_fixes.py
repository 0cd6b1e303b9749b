"""What would mend a broken promise concerns whoever broke it: where a record was last seen says who
that was.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness import registry
from harness.cli import main
from harness.judge.verdict import Kind, Verdict
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.model.states import LastHop, State
from harness.pipelines.fixes import WITHOUT_POSITION, WORDS, Advice, fix_of
from harness.pipelines.outputs import OutputKind
from harness.pipelines.practice import UNSEEN, ClientPractice, practice_of
from tests.events import events_of

AMO, ALO, EOS = Semantic.AT_MOST_ONCE, Semantic.AT_LEAST_ONCE, Semantic.EXACTLY_ONCE


def advised(
    semantic: Semantic = ALO,
    point: str = "none",
    *,
    last_hop: LastHop | None = None,
    stored: int = 0,
    delivered: int = 0,
    output: OutputKind = OutputKind.SQLITE,
    role: Role = Role.CONSUMER,
    by_fault: bool = True,
    aside: bool = False,
    aside_in: tuple[str, ...] = (),
    system: str = "kafka",
    seen: ClientPractice = UNSEEN,
    connector: Role | None = None,
) -> str:
    """Return what is advised where one record was lost, or is there more than once."""
    rows = (
        {
            "record": "a",
            "key": "k",
            "position": 1,
            "state": State.LOST if last_hop else State.RECORDED,
            "last_hop": last_hop,
            "stored_twice": stored,
            "delivered_twice": delivered,
        },
    )
    lost, duplicated = (
        frozenset({"a"}) if seen else frozenset() for seen in (last_hop, stored + delivered)
    )
    settings = {
        "output": {"kind": str(output)},
        "stages": [
            {"role": each, "connector": "a.json" if each == connector else ""}
            for each in (Role.PRODUCER, role)
        ],
        "system": system,
    }
    plan = SimpleNamespace(
        semantic=semantic, failure_point=point, settings=settings, dead_letters=False
    )
    set_aside = frozenset({"b"}) if aside else frozenset()
    account = SimpleNamespace(
        lost=lost, set_aside=set_aside, duplicated=duplicated, rows=rows, aside_in=aside_in
    )
    judgement: Any = SimpleNamespace(
        plan=plan, account=account, verdict=Verdict(Kind.BROKEN, "", by_fault=by_fault)
    )
    told = fix_of(judgement, registry.scenarios(), seen)
    assert told is not None
    return told


@pytest.mark.parametrize(
    ("hop", "said"),
    [
        (LastHop.NEVER_SENT, {"acks=all"}),
        (LastHop.ACKED, {"acks=all"}),
        (LastHop.DELIVERED, {"enable.auto.commit=false"}),
        (LastHop.SKIPPED, {"enable.auto.commit=false"}),
        (LastHop.DELETED, {"retention.ms"}),
    ],
)
def test_who_lost_a_record_is_who_is_advised(hop: LastHop, said: set[str]) -> None:
    told = advised(last_hop=hop)
    assert {
        word for word in ("acks=all", "enable.auto.commit=false", "retention.ms") if word in told
    } == said


@pytest.mark.parametrize(
    ("lost", "said"),
    [({1, 2, 3}, True), ({1, 2}, False), ({1, 2, 3, 5}, False), ({2, 3, 5}, False)],
)
def test_a_table_of_last_values_shows_too_little(lost: set[int], said: bool) -> None:
    """It loses all but the last record of each key, at rest and without a fault: no commit mends
    that. Who loses others, or not all of these, is advised as ever.
    """
    rows = [
        {
            "record": f"{key}-{at}",
            "key": key,
            "position": at,
            "state": State.LOST if at in lost else State.RECORDED,
            "last_hop": LastHop.DELIVERED if at in lost else None,
        }
        for at, key in enumerate("abaab", start=1)
    ]
    settings = {"output": {"kind": "sqlite"}, "stages": [{"role": "consumer"}], "system": "kafka"}
    plan = SimpleNamespace(
        semantic=ALO,
        failure_point="consumer-crash-before-commit",
        settings=settings,
        dead_letters=False,
    )
    account = SimpleNamespace(
        lost=lost, set_aside=frozenset(), duplicated=frozenset(), rows=rows, aside_in=()
    )
    verdict = Verdict(Kind.BROKEN, "", by_fault=True)
    judgement: Any = SimpleNamespace(plan=plan, account=account, verdict=verdict)
    told = str(fix_of(judgement, registry.scenarios(), UNSEEN))
    assert (WORDS[Advice.A_ROW_FOR_EACH] in told) is said
    assert ("lostack run --only" in told) is not said, "lostack's own programs show nothing of it"
    assert (WORDS[Advice.COMMIT_BEHIND_WORK] in told) is not said


@pytest.mark.parametrize("system", ["activemq", "artemis", "pulsar"])
@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"last_hop": LastHop.DELIVERED}, "acknowledge a message when its result is recorded"),
        ({"last_hop": LastHop.ACKED}, "send durable messages"),
        ({"semantic": EOS, "stored": 1}, "an id by which the broker"),
        ({"semantic": AMO, "stored": 1}, "send once"),
        ({"semantic": AMO, "delivered": 1}, "acknowledge a message, and wait"),
    ],
)
def test_nobody_is_advised_of_kafka_at_a_queue(
    system: str, seen: dict[str, Any], words: str
) -> None:
    """It has no positions, no settings of Kafka's client, and no cell of ours that runs on Kafka
    shows what would help.
    """
    told = advised(point="producer-crash-before-ack", system=system, **seen)
    assert words in told
    assert not [
        word
        for word in ("acks=all", "auto.commit", "position", "Kafka", "retries=0", "lostack run")
        if word in told
    ]


@pytest.mark.parametrize(
    ("hop", "words"),
    [
        (LastHop.GIVEN_UP, "acknowledge a message when its result is recorded"),
        (LastHop.EXPIRED, "live for longer"),
        (LastHop.LIMIT, "allow more deliveries"),
        (LastHop.REJECTED, "to the queue, and reject others only"),
        (LastHop.DEAD_LETTER, "the dead-letter queue exists"),
        (LastHop.MOVED, "the place to which messages are moved"),
        (LastHop.COMPACTED, "a key of its own"),
        (LastHop.PURGED, "never empty"),
        (LastHop.DUPLICATE, "for a duplicate"),
    ],
)
def test_what_a_queue_has_lost_is_mended_at_the_queue(hop: LastHop, words: str) -> None:
    """Neither the producer's settings nor the consumer's would have kept it, and no cell of ours
    shows that this does.
    """
    told = advised(point="ack-lost", last_hop=hop)
    assert words in told
    assert not any(
        of_others in told
        for of_others in ("acks=all", "enable.auto.commit", "; and ", "lostack run --only")
    )


def test_every_place_where_a_record_can_be_lost_has_its_own_advice() -> None:
    """Those before the broker and those behind it share one each; a hop that is new is no
    producer's by default.
    """
    told: dict[str, set[LastHop]] = {}
    for hop in LastHop:
        told.setdefault(advised(last_hop=hop), set()).add(hop)
    shared = [hops for hops in told.values() if len(hops) > 1]
    assert shared == [
        {LastHop.NEVER_SENT, LastHop.SENT, LastHop.ACKED, LastHop.ABORTED},
        {LastHop.SKIPPED, LastHop.DELIVERED},
    ]


def test_dead_letters_that_nobody_reads_are_mended_by_a_reader() -> None:
    """What is set aside is lost where dead letters are no part of the pipeline."""
    assert advised(aside=True) == (
        "read the dead letters before they are purged, and send again the messages that can succeed"
    )


def test_dead_letters_in_a_topic_may_be_declared() -> None:
    """The user knows whether they are meant; the advice names the topic and the field."""
    assert advised(aside=True, aside_in=("orders.dlq",)) == (
        "if records may end in orders.dlq, say so in the declaration (dead_letters = "
        '"orders.dlq"); if not, read the dead letters before they are purged, and send again the '
        "messages that can succeed"
    )


@pytest.mark.parametrize(
    "seen", [{"delivered": 1}, {"last_hop": LastHop.DELIVERED}], ids=["row first", "position first"]
)
@pytest.mark.parametrize(
    ("output", "said"),
    [(OutputKind.SQLITE, True), (OutputKind.TOPIC, False), (OutputKind.LINES, False)],
)
def test_a_crash_between_two_writes_is_mended_by_one_transaction(
    output: OutputKind, *, said: bool, seen: dict[str, Any]
) -> None:
    """Whichever of the two came first, where there are transactions and keys: in a database."""
    told = advised(EOS, "crash-at-write", output=output, **seen)
    words = (
        "write the result and its position in one transaction, or make the write idempotent and "
        "save the position behind it"
    )
    assert told.startswith(words) is said
    assert "or let the output absorb" not in told


@pytest.mark.parametrize("by_fault", [True, False])
def test_what_the_fault_has_not_broken_is_not_shown_by_its_failure_point(*, by_fault: bool) -> None:
    """The cell of ours that survives this failure point shows something of it, and of no other
    break.
    """
    told = advised(point="ack-lost", last_hop=LastHop.ACKED, by_fault=by_fault)
    assert (
        "own programs, run: lostack run --only plain/ack-lost/at-least-once" in told
    ) is by_fault


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (OutputKind.SQLITE, "a unique key on the id in the output's table"),
        (OutputKind.COMMAND, "a unique key on"),
        (OutputKind.TOPIC, "send the offsets in the transaction of the results"),
        (OutputKind.PARQUET, "name a file"),
        (OutputKind.DELTA, "txnAppId and txnVersion"),
        (OutputKind.ICEBERG, "the position in the snapshot"),
    ],
)
def test_what_records_once_depends_on_where_is_recorded(output: OutputKind, words: str) -> None:
    """A table has keys, a topic transactions, a folder names; none of them has the others'."""
    told = advised(EOS, delivered=1, output=output)
    assert told.startswith(("record each ", "send the offsets"))
    assert words in told
    assert "or let the output absorb" not in told


@pytest.mark.parametrize("semantic", [AMO, EOS])
def test_a_unique_key_absorbs_what_a_producer_has_doubled(semantic: Semantic) -> None:
    """Beside what keeps it from doing so; where the output has no keys, nobody is advised to make
    one.
    """
    absorbs = "; or let the output absorb duplicates from any stage: a unique key on the id"
    assert absorbs in advised(semantic, stored=1)
    assert absorbs not in advised(semantic, stored=1, output=OutputKind.TOPIC)


@pytest.mark.parametrize(
    ("role", "point", "shown"),
    [
        (Role.CONSUMER, "producer-crash-before-ack", "plain/producer-crash-before-ack"),
        (Role.PROCESSOR, "producer-crash-before-ack", "topic-to-topic/producer-crash-before-ack"),
        (
            Role.PROCESSOR,
            "transaction-crash-before-commit",
            "topic-to-topic/producer-crash-before-commit",
        ),
        (Role.PROCESSOR, "commit-lost", "plain/commit-lost"),
        (Role.CONSUMER, "consumer-at-recorded", None),
    ],
)
def test_whose_cell_shows_that_it_works_is_said(
    role: Role, point: str, shown: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of lostack's own, of a pipeline like the user's, and one that there is; where there is
    none, nothing is said.
    """
    told = advised(EOS, point, stored=1, role=role)
    assert ("To see that this works with lostack's own programs" in told) is (shown is not None)
    if shown is not None:
        words = told.rpartition("lostack run --only ")[2]
        assert words == f"{shown}/exactly-once"
        assert main(["list", "--only", words]) == 0
        assert words in capsys.readouterr().out


def sends(acks: int | None, **more: object) -> ClientPractice:
    """Return what is seen of a producer that asks for ``acks``, as the wire writes it."""
    frame = {"event": "frame", "conn": 3, "role": "producer", "api": "Produce", "records": ["a"]}
    told = {"event": "sent", "record": "a", "request": "3:1", "producer_id": -1, **more}
    return practice_of(events_of([frame | {"acks": acks}, told]))


@pytest.mark.parametrize(
    ("seen", "words", "never"),
    [
        (
            sends(-1),
            "it asks for acks=all already (seen on the wire), so save the",
            "send with acks",
        ),
        (sends(1), "send with acks=all and retries (the wire saw acks=1)", "already"),
        (sends(None), "send with acks=all and retries, save the source's cursor", "wire"),
        (sends(None, producer_id=7), "it asks for acks=all already", "send with acks"),
    ],
)
def test_nobody_is_told_to_do_what_the_wire_saw_it_do(
    seen: ClientPractice, words: str, never: str
) -> None:
    """Advice for a lost record fits the acks that the producer asks for; an idempotent one can ask
    for nothing less than all.
    """
    told = advised(last_hop=LastHop.NEVER_SENT, seen=seen)
    assert told.startswith(words)
    assert never not in told


def test_an_idempotent_producer_is_not_told_to_be_one() -> None:
    """What doubles then is a program that was started again; one in a transaction is told of the
    cursor, and its reader of the isolation that it was seen to lack.
    """
    told = advised(EOS, stored=1, seen=sends(-1, producer_id=7))
    assert told.startswith("enable.idempotence is on already (seen on the wire); after a restart")
    inside = sends(-1, producer_id=7, transactional=True)
    reader = {"event": "frame", "conn": 4, "role": "consumer", "api": "Fetch"}
    for committed, said in ((False, True), (True, False)):
        found = practice_of(events_of([reader | {"committed_only": committed}]))
        seen = replace(inside, committed_only=found.committed_only)
        told = advised(EOS, stored=1, seen=seen)
        assert told.startswith("it sends in transactions already (seen on the wire)")
        assert ("was seen to read uncommitted ones" in told) is said
        assert ("isolation.level=read_committed" in told) is said


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"last_hop": LastHop.NEVER_SENT}, "several records have one place in the source's log"),
        ({"last_hop": LastHop.ACKED, "point": "told-to-end-while-sending"}, "a replication slot"),
        (
            {"last_hop": LastHop.ACKED, "seen": sends(1)},
            "acks=all (the wire saw acks=1): the worker",
        ),
        ({"semantic": EOS, "stored": 1}, "exactly.once.source.support=enabled"),
        (
            {"semantic": EOS, "stored": 1, "seen": sends(-1, producer_id=7, transactional=True)},
            "in one transaction already (seen on the wire): let the connector go on",
        ),
        ({"semantic": AMO, "stored": 1}, "promise at-least-once"),
    ],
)
def test_who_runs_a_source_connector_is_not_told_to_write_a_producer(
    told: dict[str, Any], words: str
) -> None:
    """Its worker waits for acknowledgements; no cell of a producer of ours shows what would help.
    The pipeline's reader, which is no connector, is told what any reader is.
    """
    said = advised(**{"point": "ack-lost", **told}, connector=Role.PRODUCER)
    assert words in said
    assert not [w for w in ("look at what a send", "flush()", "retries=0", "--only") if w in said]
    reader = advised(last_hop=LastHop.DELIVERED, connector=Role.PRODUCER)
    assert reader == advised(last_hop=LastHop.DELIVERED)


def test_who_runs_a_sink_connector_is_not_told_to_commit() -> None:
    """Its worker commits; a producer that is no connector is told what any producer is."""
    said = advised(last_hop=LastHop.DELIVERED, connector=Role.CONSUMER)
    assert "behind flush()" in said
    assert "enable.auto.commit" not in said
    seen = replace(UNSEEN, offsets_sent=frozenset({"consumer"}))
    said = advised(last_hop=LastHop.DELIVERED, connector=Role.CONSUMER, seen=seen)
    assert "in transactions of its own already (seen on the wire)" in said
    assert "flush()" not in said
    again = advised(AMO, delivered=1, connector=Role.CONSUMER)
    assert again.startswith("a worker commits a position behind the work, and no setting turns")
    sender = advised(last_hop=LastHop.ACKED, connector=Role.CONSUMER)
    assert sender == advised(last_hop=LastHop.ACKED)


def test_the_same_words_are_said_once() -> None:
    """A queue has one advice for what was given up and for what was not recorded."""
    rows = [
        {
            "key": "k",
            "position": 1,
            "state": State.LOST,
            "last_hop": hop,
            "stored_twice": 0,
            "delivered_twice": 0,
        }
        for hop in (LastHop.GIVEN_UP, LastHop.DELIVERED)
    ]
    settings = {"output": {"kind": "sqlite"}, "stages": [], "system": "activemq"}
    plan = SimpleNamespace(
        semantic=ALO, failure_point="none", settings=settings, dead_letters=False
    )
    account = SimpleNamespace(
        lost={"a", "b"}, set_aside=frozenset(), duplicated=frozenset(), rows=rows
    )
    judgement: Any = SimpleNamespace(
        plan=plan, account=account, verdict=Verdict(Kind.BROKEN, "", by_fault=True)
    )
    told = fix_of(judgement, ())
    assert told is not None
    assert told.count("acknowledge a message") == 1


@pytest.mark.parametrize("point", sorted(WITHOUT_POSITION))
def test_a_reader_without_a_position_is_to_begin_at_the_start(point: str) -> None:
    """What it skipped there is no fault of its commits; what it was given and lost is."""
    begins, commits = WORDS[Advice.BEGIN_AT_START], WORDS[Advice.COMMIT_BEHIND_WORK]
    skipped = advised(point=point, last_hop=LastHop.SKIPPED)
    assert begins in skipped
    assert commits not in skipped
    given = advised(point=point, last_hop=LastHop.DELIVERED)
    assert commits in given
    assert begins not in given
    assert commits in advised(point="commit-ack-lost", last_hop=LastHop.SKIPPED)
