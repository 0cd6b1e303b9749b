"""A partition whose leader moves while it is read: waited for, for so long and no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kafka.protocol.consumer.fetch import FetchResponse

from harness.audit import fetching
from harness.audit.answers import fetched_part
from harness.audit.fetching import OffsetRange, UnreadableError, fetched
from harness.audit.messages import FETCH

if TYPE_CHECKING:
    from collections.abc import Callable


NOT_LEADER, NOT_ALLOWED, FINE = 6, 29, 0
STRETCH = OffsetRange("127.0.0.1:9092", "orders", 1, 0, 7)


def answered(
    error: int, aborted: list[tuple[int, int]] | None, records: bytes | None, *, parts: int = 1
) -> bytearray:
    """Make the answer to a fetch as kafka-python writes it; ``aborted`` are (first offset,
    producer).
    """
    of_topic = FetchResponse.FetchableTopicResponse
    gone = of_topic.PartitionData.AbortedTransaction
    part = of_topic.PartitionData(
        version=FETCH.version,
        partition_index=1,
        error_code=error,
        high_watermark=9,
        last_stable_offset=8,
        log_start_offset=0,
        preferred_read_replica=-1,
        records=records,
        aborted_transactions=None
        if aborted is None
        else [
            gone(version=FETCH.version, producer_id=who, first_offset=first)
            for first, who in aborted
        ],
    )
    topic = of_topic(version=FETCH.version, topic="orders", partitions=[part] * parts)
    answer = FetchResponse(
        version=FETCH.version, throttle_time_ms=3, error_code=0, session_id=0, responses=[topic]
    )
    answer.with_header(correlation_id=5)
    return bytearray(answer.encode(header=True))


@pytest.mark.parametrize("aborted", [None, [], [(7, 4000), (9, 1 << 40)]])
@pytest.mark.parametrize("records", [None, b"", b"abc" * 100])
def test_an_answer_is_read_as_kafka_python_writes_it(
    aborted: list[tuple[int, int]] | None, records: bytes | None
) -> None:
    """The error, the aborted transactions, and where the records stand; what stands behind the
    answer is none of it.
    """
    data = answered(0, aborted, records)
    found = fetched_part(data + b"behind", len(data))
    assert (found.error, found.aborted, found.data[found.at : found.end]) == (
        0,
        aborted or [],
        records or b"",
    )
    assert (
        fetched_part(answered(29, aborted, records), len(answered(29, aborted, records))).error
        == 29
    )


def test_an_answer_without_a_partition_is_one_without_records() -> None:
    """No error and nothing of the partition: it is asked for again."""
    data = answered(0, [], b"", parts=0)
    assert (found := fetched_part(data, len(data))).error == 0
    assert found.at == found.end


@pytest.mark.parametrize("size", [0, 5, 17, 40, 70, 120])
def test_an_answer_that_ends_early_is_no_answer(size: int) -> None:
    """A broker whose words cannot be read is left, as one that hangs up is."""
    data = answered(0, [(7, 4000)], b"abc" * 100)
    with pytest.raises(ConnectionError, match="the broker gave an answer that"):
        fetched_part(data[:size], size)


class Link:
    """A connection to a broker that answers each fetch by the next of these errors, and by the last
    for ever.
    """

    errors: tuple[int, ...]
    asked = 0

    def send(self, request: Any) -> None:
        """Take a request."""

    def answer(self) -> tuple[bytearray, int]:
        """Answer it."""
        error = Link.errors[min(Link.asked, len(Link.errors) - 1)]
        Link.asked += 1
        data = answered(error, [], b"")
        return data, len(data)

    def close(self) -> None:
        """Leave."""


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Give the number of fetches after which reading ended, and with what, for brokers that answer
    so.
    """
    monkeypatch.setattr(fetching, "_leader", lambda _: Link())
    monkeypatch.setattr(fetching, "PATIENCE_S", 0.5)
    monkeypatch.setattr(fetching, "ASK_AGAIN_S", 0.01)

    def end(*errors: int) -> tuple[int, str]:
        Link.errors, Link.asked = errors, 0
        with pytest.raises(UnreadableError) as raised:
            list(fetched(STRETCH))
        return Link.asked, str(raised.value)

    return end


def test_a_leader_that_is_none_any_more_is_asked_for_again_until_there_is_one(ask: Any) -> None:
    """Refused by three of them, then read on from the same offset (and given nothing there)."""
    asked, said = ask(NOT_LEADER, NOT_LEADER, NOT_LEADER, FINE)
    assert asked > len((NOT_LEADER, NOT_LEADER, NOT_LEADER, FINE))
    assert (
        said
        == "partition 1 of orders cannot be read from offset 0 on: its leader returns no records"
    )


def test_where_nobody_leads_it_is_given_up_with_the_reason(ask: Any) -> None:
    _, said = ask(NOT_LEADER)
    assert (
        said == "partition 1 of orders cannot be read from offset 0 on: NotLeaderForPartitionError"
    )


def test_what_will_not_change_is_not_waited_for(ask: Any) -> None:
    assert ask(NOT_ALLOWED) == (
        1,
        "partition 1 of orders cannot be read at offset 0: TopicAuthorizationFailedError",
    )
