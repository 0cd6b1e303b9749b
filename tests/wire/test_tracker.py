"""Which frames are about which records: the bookkeeping alone, on real frames."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from harness.model import events as kinds
from harness.protocols.kafka import codec, reading, transactions
from harness.protocols.kafka.fetching import FetchSession
from harness.protocols.kafka.insights import NOTHING, Insight
from harness.protocols.kafka.kept import EACH, RecordCache
from harness.protocols.kafka.steps import Api
from harness.protocols.kafka.tracker import Tracker
from harness.wire.rules import Direction
from tests.events import fields_of
from tests.protocols.conversation import check_lines
from tests.wire import kafka_frames as kf

if TYPE_CHECKING:
    from collections.abc import Iterable

CLIENT = "k.role.1"
TX = kf.Writer(5, 0, 0, "tx")


class Talk:
    """One connection's conversation, decoded and settled at once."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.tracker = Tracker(self.names)
        self.session = FetchSession()
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def request(self, api: Api, frame: bytes, *, reached: bool = True) -> Insight:
        """Take a framed request."""
        version = int.from_bytes(frame[6:8], "big")
        content = reading.decode(api, Direction.REQUEST, version, frame[4:])
        assert isinstance(content, codec.Content)
        insight = self.tracker.look_at_request(content, "1:1")
        self._settle(insight, reached=reached)
        return insight

    def response(
        self, api: Api, frame: bytes, asked: Insight, version: int, *, reached: bool = True
    ) -> Insight:
        """Take a framed response."""
        content = reading.decode(api, Direction.RESPONSE, version, frame[4:])
        assert isinstance(content, codec.Content)
        insight = self.tracker.look_at_response(content, asked, self.session, 1)
        self._settle(insight, reached=reached)
        return insight

    def _settle(self, insight: Insight, *, reached: bool) -> None:
        lines = list(self.tracker.settle(insight, reached=reached))
        check_lines(lines)
        self.lines += ((line.event, fields_of(line)) for line in lines)

    def fetched(self, *records: str, start: int = 0) -> None:
        """Fetch these records, at consecutive offsets."""
        data = kf.batch([kf.payload(record) for record in records], base_offset=start)
        asked = self.request(Api.FETCH, kf.fetch(1, CLIENT, start))
        self.response(Api.FETCH, kf.fetch_answer(1, data), asked, 12)

    def commit(self, offset: int, *, error: int = 0, answered: bool = True) -> Iterable[str]:
        """Commit a position; return the records this is about."""
        asked = self.request(Api.OFFSET_COMMIT, kf.commit(1, CLIENT, offset))
        if answered:
            self.response(Api.OFFSET_COMMIT, kf.commit_answer(1, error=error), asked, 8)
        return sorted(asked.subject.records)


@pytest.mark.parametrize("compression", kf.CODECS)
@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_a_produce_request_names_its_records(version: int, compression: str) -> None:
    """Every record of every version and compression is found, with producer, sequence, attempt;
    foreign values not.
    """
    talk = Talk()
    talk.names[codec.topic_id_name(kf.TOPIC_ID)] = kf.TOPIC
    values = [kf.payload("a-1", "x" * 300), b"foreign", kf.payload("a-2", "x" * 300)]
    writer = kf.Writer(9, 2, 40, "tx")
    frame = kf.produce(
        1, CLIENT, kf.batch(values, writer, codec=compression), version=version, writer=writer
    )
    insight = talk.request(Api.PRODUCE, frame)
    assert insight.subject.records == {"a-1", "a-2"}
    assert insight.subject.topics == {kf.TOPIC}
    assert insight.subject.transactional_ids == {"tx"}
    kind, fields = talk.lines[1]
    assert kind == "sent"
    assert fields == {
        "record": "a-2",
        "topic": kf.TOPIC,
        "partition": 0,
        "request": "1:1",
        "producer_id": 9,
        "producer_epoch": 2,
        "sequence": 42,
        "base": 40,
        "transactional": True,
        "transactional_id": "tx",
        "attempt": "i.1.2",
    }


@pytest.mark.parametrize("version", [0, 2, 4, 6])
@pytest.mark.parametrize("name", ["tx", None])
@pytest.mark.parametrize("reached", [True, False])
def test_a_producer_begins(version: int, name: str | None, *, reached: bool) -> None:
    """Under which transactional id, if any, and how long it may leave a transaction open."""
    talk = Talk()
    insight = talk.request(
        Api.INIT_PRODUCER_ID,
        kf.init_producer(1, CLIENT, name, 4500, version=version),
        reached=reached,
    )
    assert insight.subject.transactional_ids == ({name} if name else set())
    assert talk.lines == [
        (
            "init_producer",
            {"transactional_id": name, "timeout_ms": 4500, "request": "1:1", "reached": reached},
        ),
    ]


def test_a_request_that_was_not_passed_on_is_unsent() -> None:
    talk = Talk()
    talk.request(Api.PRODUCE, kf.produce(1, CLIENT, kf.batch([kf.payload("a-1")])), reached=False)
    assert [kind for kind, _ in talk.lines] == ["unsent"]


@pytest.mark.parametrize("version", [3, 8, 9, 13])
@pytest.mark.parametrize(("error", "offset"), [(0, 71), (6, -1), (46, -1)])
def test_a_produce_answer_is_told_per_record(version: int, error: int, offset: int) -> None:
    """The answer of a batch becomes one line per record, with its own offset where it
    was stored, and with word if it was stored before (DUPLICATE_SEQUENCE_NUMBER).
    """
    talk = Talk()
    data = kf.batch([kf.payload("a-1"), kf.payload("a-2")])
    asked = talk.request(Api.PRODUCE, kf.produce(1, CLIENT, data, version=version))
    answer = talk.response(
        Api.PRODUCE,
        kf.produce_answer(1, version=version, error=error, base_offset=70),
        asked,
        version,
        reached=False,
    )
    assert (answer.error, answer.subject.records) == (error, frozenset({"a-1", "a-2"}))
    kind, fields = talk.lines[-1]
    assert (kind, fields["record"], fields["offset"], fields["reached"]) == (
        "produce_answer",
        "a-2",
        offset,
        False,
    )
    assert fields.get("repeated", False) is (error == 46)


def test_a_fetch_response_counts_from_the_position_asked_for() -> None:
    """A batch may begin before the position: earlier records are not delivered. Incremental
    requests keep positions.
    """
    talk = Talk()
    asked = talk.request(Api.FETCH, kf.fetch(1, CLIENT, 11, epoch=0))
    data = kf.batch([kf.payload("a-1"), kf.payload("a-2")], base_offset=10)
    assert talk.response(Api.FETCH, kf.fetch_answer(1, data), asked, 12).subject.records == {"a-2"}
    again = talk.request(Api.FETCH, kf.fetch(2, CLIENT, None, epoch=1))
    assert talk.response(Api.FETCH, kf.fetch_answer(2, data), again, 12).subject.records == {"a-2"}
    full = talk.request(Api.FETCH, kf.fetch(3, CLIENT, 10, epoch=0))
    assert talk.response(Api.FETCH, kf.fetch_answer(3, data), full, 12).subject.records == {
        "a-1",
        "a-2",
    }


@pytest.mark.parametrize(("committed", "seen"), [(True, {"c-1"}), (False, {"a-1", "c-1"})])
def test_aborted_records_are_fetched_by_nobody_who_reads_committed(
    committed: bool, seen: set[str]
) -> None:
    """Control batches are skipped, and aborted ones too where the request asked for committed
    records only.
    """
    talk = Talk()
    asked = talk.request(Api.FETCH, kf.fetch(1, CLIENT, 0, committed=committed))
    data = (
        kf.batch([kf.payload("a-1")], TX, base_offset=0)
        + abort(1)
        + kf.batch([kf.payload("c-1")], TX, base_offset=2)
    )
    answer = talk.response(Api.FETCH, kf.fetch_answer(1, data, aborted=((5, 0),)), asked, 12)
    assert answer.subject.records == seen


def abort(offset: int) -> bytes:
    """Make the marker that ends the first transaction of TX."""
    return kf.abort_marker(TX.producer_id, offset)


def test_a_commit_is_about_what_it_covers_first() -> None:
    """A commit is about the fetched records between the stored position and its own; a failed one
    moves nothing.
    """
    talk = Talk()
    talk.fetched("a-1", "a-2", "a-3")
    assert talk.commit(1) == ["a-1"]
    assert talk.commit(2, error=22) == ["a-2"]
    assert talk.commit(2, answered=False) == ["a-2"]
    assert talk.commit(3) == ["a-2", "a-3"]
    assert talk.commit(3) == []


def test_the_end_of_a_transaction_is_about_its_records() -> None:
    """EndTxn is about what was produced in the transaction or whose positions it saves; asked for
    again, about the same.
    """
    talk = Talk()
    talk.fetched("a-1", "a-2")
    talk.request(Api.PRODUCE, kf.produce(1, CLIENT, kf.batch([kf.payload("b-1")], TX), writer=TX))
    covered = talk.request(Api.TXN_OFFSET_COMMIT, kf.txn_commit(2, CLIENT, 1, TX))
    talk.response(Api.TXN_OFFSET_COMMIT, kf.txn_commit_answer(2), covered, 3)
    assert covered.subject.records == {"a-1"}
    end = talk.request(Api.END_TXN, kf.end_txn(3, CLIENT, TX))
    assert end.subject.records == {"a-1", "b-1"}
    assert talk.response(Api.END_TXN, kf.end_txn_answer(3), end, 3).subject.records == {
        "a-1",
        "b-1",
    }
    assert talk.request(Api.END_TXN, kf.end_txn(4, CLIENT, TX)).subject.records == {"a-1", "b-1"}
    talk.request(Api.PRODUCE, kf.produce(5, CLIENT, kf.batch([kf.payload("b-2")], TX), writer=TX))
    assert talk.request(Api.END_TXN, kf.end_txn(6, CLIENT, TX)).subject.records == {"b-2"}
    assert talk.commit(2) == ["a-2"]


def asked_again(talk: Talk, kind: str = kinds.ASKED_AGAIN) -> list[tuple[str, str, str, int]]:
    """Return what was asked again: record, api, what, times; and forget it."""
    said = [
        (f["record"], f["api"], f["what"], f["times"]) for what, f in talk.lines if what == kind
    ]
    talk.lines.clear()
    return said


def one_transaction(
    talk: Talk, record: str, *, calls: int = 1, answered: bool = True, writer: kf.Writer = TX
) -> None:
    """Add a partition and the group, send a record, end the transaction; each call so often."""
    for _ in range(calls):
        talk.request(
            Api.ADD_PARTITIONS_TO_TXN, kf.add_partitions(1, CLIENT, writer, 0), reached=False
        )
        talk.request(Api.ADD_OFFSETS_TO_TXN, kf.add_offsets(2, CLIENT, writer))
    talk.request(
        Api.PRODUCE, kf.produce(3, CLIENT, kf.batch([kf.payload(record)], writer), writer=writer)
    )
    end = talk.request(Api.END_TXN, kf.end_txn(4, CLIENT, writer))
    if answered:
        talk.response(Api.END_TXN, kf.end_txn_answer(4), end, 3)


def test_what_is_asked_again_counts_for_its_own_transaction() -> None:
    """Once in each of two transactions is not again; twice in one is, whether it arrived or not."""
    talk = Talk()
    one_transaction(talk, "a-1")
    one_transaction(talk, "a-2")
    assert asked_again(talk) == []
    one_transaction(talk, "a-3", calls=2)
    assert asked_again(talk) == [
        ("a-3", "AddPartitionsToTxn", f"{kf.TOPIC}/0", 2),
        ("a-3", "AddOffsetsToTxn", "group g", 2),
    ]


@pytest.mark.parametrize(
    ("refused", "again"), [(51, []), (0, [f"{kf.TOPIC}/0", "group g"])], ids=["refused", "taken"]
)
def test_what_was_refused_and_is_asked_for_again_shows_nothing(
    refused: int, again: list[str]
) -> None:
    """The coordinator refuses (CONCURRENT_TRANSACTIONS) while it ends the last transaction: every
    client asks again then.
    """
    talk = Talk()
    first = talk.request(Api.ADD_PARTITIONS_TO_TXN, kf.add_partitions(1, CLIENT, TX, 0))
    talk.response(Api.ADD_PARTITIONS_TO_TXN, kf.add_partitions_answer(1, p0=refused), first, 3)
    group = talk.request(Api.ADD_OFFSETS_TO_TXN, kf.add_offsets(2, CLIENT, TX))
    talk.response(Api.ADD_OFFSETS_TO_TXN, kf.add_offsets_answer(2, error=refused), group, 3)
    one_transaction(talk, "a-1")
    assert [what for _, _, what, _ in asked_again(talk)] == again


def test_of_a_request_only_what_was_refused_is_taken_back() -> None:
    talk = Talk()
    first = talk.request(Api.ADD_PARTITIONS_TO_TXN, kf.add_partitions(1, CLIENT, TX, 0, 1))
    talk.response(Api.ADD_PARTITIONS_TO_TXN, kf.add_partitions_answer(1, p0=0, p1=51), first, 3)
    talk.request(Api.ADD_PARTITIONS_TO_TXN, kf.add_partitions(2, CLIENT, TX, 0, 1))
    one_transaction(talk, "a-1", calls=0)
    assert [what for _, _, what, _ in asked_again(talk)] == [f"{kf.TOPIC}/0"]


def test_another_partition_is_not_again() -> None:
    """A client may add partitions one by one."""
    talk = Talk()
    talk.request(Api.ADD_PARTITIONS_TO_TXN, kf.add_partitions(1, CLIENT, TX, 0))
    talk.request(Api.ADD_PARTITIONS_TO_TXN, kf.add_partitions(2, CLIENT, TX, 1))
    one_transaction(talk, "a-1", calls=0)
    assert asked_again(talk) == []


def test_a_position_sent_twice_is_asked_again() -> None:
    talk = Talk()
    talk.fetched("a-1")
    for corr in (1, 2):
        talk.request(Api.TXN_OFFSET_COMMIT, kf.txn_commit(corr, CLIENT, 1, TX))
    talk.request(Api.END_TXN, kf.end_txn(3, CLIENT, TX))
    assert [(record, api, times) for record, api, _, times in asked_again(talk)] == [
        ("a-1", "TxnOffsetCommit", 2)
    ]


def test_a_position_that_was_refused_is_not_again() -> None:
    talk = Talk()
    talk.fetched("a-1")
    first = talk.request(Api.TXN_OFFSET_COMMIT, kf.txn_commit(1, CLIENT, 1, TX))
    talk.response(Api.TXN_OFFSET_COMMIT, kf.txn_commit_answer(1, error=14), first, 3)
    talk.request(Api.TXN_OFFSET_COMMIT, kf.txn_commit(2, CLIENT, 1, TX))
    talk.request(Api.END_TXN, kf.end_txn(3, CLIENT, TX))
    assert asked_again(talk) == []


@pytest.mark.parametrize("answered", [True, False], ids=["after the answer", "before it"])
def test_markers_are_about_the_transaction_that_ends(answered: bool) -> None:
    """Not about the next one, of which the client may have asked something already; written twice,
    they are asked again.
    """
    talk = Talk()
    one_transaction(talk, "a-1", answered=answered)
    if answered:
        talk.request(Api.ADD_PARTITIONS_TO_TXN, kf.add_partitions(5, CLIENT, TX, 0))
    assert talk.request(
        Api.WRITE_TXN_MARKERS, kf.markers(6, "broker-1", TX, 0)
    ).subject.records == {"a-1"}
    assert asked_again(talk, kinds.MARKED_AGAIN) == []
    talk.request(Api.WRITE_TXN_MARKERS, kf.markers(7, "broker-1", TX, 0))
    assert asked_again(talk, kinds.MARKED_AGAIN) == [("a-1", "WriteTxnMarkers", f"{kf.TOPIC}/0", 2)]


def test_markers_may_carry_the_next_epoch() -> None:
    """Version 2 of the protocol raises it at the end; the transaction of that epoch comes first,
    where there is one.
    """
    talk = Talk()
    one_transaction(talk, "a-1")
    following = replace(TX, epoch=TX.epoch + 1)
    assert talk.request(
        Api.WRITE_TXN_MARKERS, kf.markers(6, "broker-1", following, 0)
    ).subject.records == {"a-1"}
    one_transaction(talk, "a-2", writer=following)
    assert talk.request(
        Api.WRITE_TXN_MARKERS, kf.markers(7, "broker-1", following, 0)
    ).subject.records == {"a-2"}
    later = replace(TX, epoch=TX.epoch + 2)
    assert talk.request(
        Api.WRITE_TXN_MARKERS, kf.markers(8, "broker-1", later, 0)
    ).subject.records == {"a-2"}
    assert not talk.request(
        Api.WRITE_TXN_MARKERS, kf.markers(9, "broker-1", replace(TX, epoch=9), 0)
    ).subject.records


def test_an_aborted_transaction_saves_no_position() -> None:
    talk = Talk()
    talk.fetched("a-1")
    talk.request(Api.TXN_OFFSET_COMMIT, kf.txn_commit(1, CLIENT, 1, TX))
    end = talk.request(Api.END_TXN, kf.end_txn(2, CLIENT, TX, committed=False))
    talk.response(Api.END_TXN, kf.end_txn_answer(2), end, 3)
    assert talk.commit(1) == ["a-1"]


def test_a_topic_without_a_name_is_said_so() -> None:
    talk = Talk()
    insight = talk.request(
        Api.PRODUCE, kf.produce(1, CLIENT, kf.batch([kf.payload("a-1")]), version=13)
    )
    assert insight.because is not None
    assert "is not known" in insight.because


def test_unknown_versions_and_broken_bodies_are_undecodable() -> None:
    """A version beyond the schemas, and a body cut short, raise one error with one line."""
    frame = kf.produce(1, CLIENT, kf.batch([kf.payload("a-1")]))
    for version, body in ((99, frame[4:]), (9, frame[4:30])):
        with pytest.raises(codec.UndecodableError) as caught:
            reading.decode(Api.PRODUCE, Direction.REQUEST, version, body)
        assert "\n" not in str(caught.value)


def test_a_response_to_a_request_nobody_read_says_so() -> None:
    """Without its request an answer means nothing, and says why."""
    talk = Talk()
    answer = talk.response(Api.PRODUCE, kf.produce_answer(1), NOTHING, 9)
    assert answer.because == "its request could not be read"


def test_what_was_fetched_is_kept_within_bounds() -> None:
    """The latest records are known. Of a commit that may cover others it is said."""
    talk = Talk()
    kept = talk.tracker._logs = RecordCache(most_bytes=4000)
    talk.fetched(*(f"a-{number}" for number in range(6)))
    asked = talk.request(Api.OFFSET_COMMIT, kf.commit(1, CLIENT, 6))
    assert asked.forgotten is None
    assert asked.subject.records == {f"a-{number}" for number in range(6)}
    for number in range(6, 40):
        talk.fetched(f"a-{number}", start=number)
    asked = talk.request(Api.OFFSET_COMMIT, kf.commit(1, CLIENT, 40))
    assert asked.forgotten is not None
    assert "the wire keeps the latest 128 MB" in asked.forgotten
    answer = talk.response(Api.OFFSET_COMMIT, kf.commit_answer(1), asked, 8)
    assert answer.forgotten == asked.forgotten == answer.of_its_answer().forgotten
    covered = sorted(int(record[2:]) for record in asked.subject.records)
    assert covered == list(range(covered[0], 40))
    assert 10 <= len(covered) <= 20
    assert kept.at((kf.TOPIC, 0), 0) is None
    assert kept.at((kf.TOPIC, 0), 39) == "a-39"
    for number in (40, 41):
        talk.fetched(f"a-{number}", start=number)
    asked = talk.request(Api.OFFSET_COMMIT, kf.commit(1, CLIENT, 42))
    assert asked.forgotten is None
    assert asked.subject.records == {"a-40", "a-41"}


def test_the_latest_record_at_an_offset_counts() -> None:
    """Also when the earlier one is of the older generation."""
    kept = RecordCache(most_bytes=6 * EACH)
    place = ("orders", 0)
    for offset in (1, 2, 3):
        kept.put(place, offset, "old")
    kept.put(place, 2, "new")
    assert sorted(kept.between(place, 0, 9)) == ["new", "old", "old"]
    assert kept.at(place, 2) == "new"
    assert kept.why_not_all(place, 0, 9) is None
    assert list(kept.between(("none", 0), 0, 9)) == []


def test_ended_transactions_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what their records need, as well as by their number."""
    monkeypatch.setattr(transactions, "MOST_BYTES", 5 * EACH)
    ended = transactions._Ended()
    for epoch in range(20):
        ended.keep((9, epoch), transactions.Transaction({"a", "b"}))
    assert list(ended) == [(9, 18), (9, 19)]
    ended.keep((9, 19), transactions.Transaction({"c"}))
    assert ended.size == sum(each.size for each in ended.values())
