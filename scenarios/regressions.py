"""A corpus of published bugs: each convicts a version that has it and acquits one that has not, by
the same cell.

A row stands here because it was run both ways: docs/published-bugs.md says on which seeds.
``lostack regressions`` does it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.judge.verdict import Kind


@dataclass(frozen=True, slots=True)
class Trial:
    """A cell (``pipeline/scenario/semantic``) with a client and a system, and what must come out.

    ``reason`` is a regular expression that the verdict's reason must fit: a cell can stand still
    for more than one.
    """

    cell: str
    client: str
    verdict: Kind
    reason: str = ""
    system: str = "kafka"

    @property
    def programs(self) -> str:
        """The client, and the system where that is pinned to a version."""
        return f"{self.client}, {self.system}" if "==" in self.system else self.client


@dataclass(frozen=True, slots=True)
class PublishedBug:
    """One bug: its name in its tracker, what it does, the trials that convict and those that
    acquit.
    """

    id: str
    does: str
    address: str
    convicts: tuple[Trial, ...]
    acquits: tuple[Trial, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All of them."""
        return (*self.convicts, *self.acquits)


LATE = "plain/late-abort/exactly-once"
REVIVED = "plain/late-commit-of-an-aborted/exactly-once"
HALF = "plain/late-commit/exactly-once"
FENCED = "plain/late-commit+fresh/exactly-once"
OFFSETS = "topic-to-topic/ack-lost/exactly-once"
GROWS = "plain/partitions-added/at-least-once"
ABSENT = "plain/absent-while-others-work/at-most-once"
ABSENT_PROCESSOR = "topic-to-topic/absent-while-others-work/exactly-once"
UNFED = "streams-later/streams-restarted-while-quiet/exactly-once"
UNMARKED = "plain/leader-crash-before-markers/exactly-once"
MOVED = "flink-job/flink-restore-with-other-prefix/exactly-once"
POOLED = "flink-job/flink-restore-with-other-prefix+pooling/exactly-once"
STILL = r"^no progress until the deadline: position: [^;]*$"
"""The reader has not come to the end, and no program has ended."""
UNSEEN = r"^no progress until the deadline: topic: \S+: last stable offset"
"""What is in the log stands behind an open transaction."""
CONNECTOR = "flink-connector-kafka"
REFUSED = "flink-job/flink-send-refused/at-least-once"

GAPS = "storm-topology/none+gaps/at-least-once"

SEND_REFUSED = "queue-by-id/send-refused/at-least-once"
LISTENED = "queue-by-id/producer-commit-lost+listened/at-least-once"

HOLES = "subscription/broker-crash-after-ack+holes"

SPARK = "spark-sql-kafka"
SPLIT = "stream-to-topic/batch-split-late/at-least-once"

COMPACTED = "queue/broker-crash-after-compaction/at-most-once"

CORPUS: tuple[PublishedBug, ...] = (
    PublishedBug(
        "KAFKA-17754",
        "a late EndTxn ends the next transaction: loss, resurrection, duplicates",
        "https://issues.apache.org/jira/browse/KAFKA-17754",
        convicts=tuple(
            Trial(cell, client, Kind.BROKEN)
            for client in (
                "kafka-python==3.0.12",
                "confluent-kafka==2.16.1",
                "confluent-kafka==2.3.0",
                "java==3.8.0",
            )
            for cell in (LATE, REVIVED, HALF)
        ),
        acquits=(
            *(
                Trial(FENCED, client, Kind.KEPT)
                for client in ("kafka-python==3.0.12", "confluent-kafka==2.16.1")
            ),
            *(
                Trial(cell, client, Kind.KEPT)
                for client in ("java==4.3.0", "java==4.4.0")
                for cell in (LATE, REVIVED, HALF)
            ),
        ),
    ),
    PublishedBug(
        "librdkafka #5456",
        (
            "sending offsets in a transaction waits for ever, past its own time-out, after a lost "
            "connection"
        ),
        "https://github.com/confluentinc/librdkafka/issues/5456",
        convicts=tuple(
            Trial(OFFSETS, f"confluent-kafka=={version}", Kind.STUCK, STILL)
            for version in ("2.16.0", "2.16.1")
        ),
        acquits=tuple(
            Trial(OFFSETS, f"confluent-kafka=={version}", Kind.KEPT)
            for version in ("2.3.0", "2.15.1")
        ),
    ),
    PublishedBug(
        "kafka-python #3131",
        "a consumer returns nothing more of the partitions that it keeps in a rebalance",
        "https://github.com/dpkp/kafka-python/issues/3131",
        convicts=(Trial(GROWS, "kafka-python==3.0.7", Kind.STUCK, STILL),),
        acquits=(Trial(GROWS, "kafka-python==3.0.12", Kind.KEPT),),
    ),
    PublishedBug(
        "KAFKA-20734",
        (
            "a partition without a leader counts as deleted: a transaction is complete without its "
            "marker, and lost"
        ),
        "https://github.com/apache/kafka/pull/22680",
        convicts=tuple(
            Trial(UNMARKED, client, Kind.BROKEN, system=f"kafka=={version}")
            for version in ("4.3.0", "4.4.0")
            for client in ("kafka-python==3.0.12", "confluent-kafka==2.16.1", f"java=={version}")
        ),
        acquits=(Trial(UNMARKED, "kafka-python==3.0.12", Kind.KEPT, system="kafka==4.2.0"),),
    ),
    PublishedBug(
        "kafka-python rejoin",
        (
            "removed while it joins, a consumer goes on from its old position: the others' work is "
            "done again"
        ),
        "https://github.com/dpkp/kafka-python",
        convicts=tuple(
            Trial(cell, "kafka-python==3.0.12", Kind.BROKEN) for cell in (ABSENT, ABSENT_PROCESSOR)
        ),
        acquits=(
            Trial(ABSENT, "kafka-python==2.3.3", Kind.KEPT),
            Trial(ABSENT, "confluent-kafka==2.16.1", Kind.KEPT),
            Trial(ABSENT_PROCESSOR, "confluent-kafka==2.16.1", Kind.KEPT),
        ),
    ),
    PublishedBug(
        "KAFKA-14294",
        (
            "results sent while no input arrives are not committed, and an orderly shutdown loses "
            "them, silently"
        ),
        "https://issues.apache.org/jira/browse/KAFKA-14294",
        convicts=(Trial(UNFED, "kafka-streams==3.3.2", Kind.BROKEN, system="streams"),),
        acquits=tuple(
            Trial(UNFED, client, Kind.KEPT, system="streams")
            for client in ("kafka-streams==3.4.0", "kafka-streams==4.3.0", "kafka-streams==4.4.0")
        ),
    ),
    PublishedBug(
        "FLINK-40626",
        (
            "a sink that reuses ids leaves a transaction open when it is restored: readers wait "
            "for its time-out"
        ),
        "https://issues.apache.org/jira/browse/FLINK-40626",
        convicts=(Trial(POOLED, CONNECTOR, Kind.STUCK, UNSEEN, "flink"),),
        acquits=(Trial(MOVED, CONNECTOR, Kind.KEPT, system="flink"),),
    ),
    PublishedBug(
        "FLINK-35749",
        "a send that fails is forgotten, and the next checkpoint is complete without the record",
        "https://issues.apache.org/jira/browse/FLINK-35749",
        convicts=(Trial(REFUSED, f"{CONNECTOR}==3.2.0", Kind.BROKEN, system="flink==1.19.3"),),
        acquits=(Trial(REFUSED, f"{CONNECTOR}==3.3.0", Kind.KEPT, system="flink==1.19.3"),),
    ),
    PublishedBug(
        "KAFKA-19479",
        "flush() does not wait for a batch that was split: Spark commits one without its records",
        "https://issues.apache.org/jira/browse/KAFKA-19479",
        convicts=(Trial(SPLIT, f"{SPARK}==4.2.0+3.9.1", Kind.BROKEN, system="spark"),),
        acquits=(Trial(SPLIT, SPARK, Kind.KEPT, system="spark"),),
    ),
    PublishedBug(
        "STORM-3301",
        "a gap in the offsets, as a transaction's marker is one, stops all commits of a spout",
        "https://issues.apache.org/jira/browse/STORM-3301",
        convicts=(Trial(GAPS, "storm-kafka-client==1.2.2", Kind.STUCK, STILL, "storm"),),
        acquits=(
            Trial(GAPS, "storm-kafka-client==1.2.3", Kind.KEPT, system="storm"),
            Trial(GAPS, "storm-kafka-client", Kind.KEPT, system="storm"),
        ),
    ),
    PublishedBug(
        "ARTEMIS-3729",
        (
            "the answer to a message sent with a listener is taken for that to its commit, which "
            "may be lost"
        ),
        "https://issues.apache.org/jira/browse/ARTEMIS-3729",
        convicts=(Trial(LISTENED, "core==2.20.0", Kind.BROKEN, system="artemis"),),
        acquits=tuple(
            Trial(LISTENED, client, Kind.KEPT, system="artemis")
            for client in ("core==2.21.0", "core==2.44.0")
        ),
    ),
    PublishedBug(
        "PIP-299",
        (
            "acknowledgements with more holes than a cursor writes down are answered, and "
            "forgotten when the broker dies"
        ),
        "https://github.com/apache/pulsar/blob/master/pip/pip-299.md",
        convicts=(Trial(f"{HOLES}/at-most-once", "pulsar-java", Kind.BROKEN, system="pulsar"),),
        acquits=(
            Trial(f"{HOLES}+pausing/at-most-once", "pulsar-java", Kind.KEPT, system="pulsar"),
        ),
    ),
    PublishedBug(
        "ARTEMIS-5106",
        "a message that a plugin refuses is missing from its transaction, whose commit succeeds",
        "https://issues.apache.org/jira/browse/ARTEMIS-5106",
        convicts=(Trial(SEND_REFUSED, "amqp", Kind.BROKEN, system="artemis==2.38.0"),),
        acquits=tuple(
            Trial(SEND_REFUSED, "amqp", Kind.KEPT, system=f"artemis=={v}")
            for v in ("2.39.0", "2.44.0")
        ),
    ),
    PublishedBug(
        "AMQ-8201",
        (
            "compaction carries on no commit of a local transaction: an index that is made anew "
            "forgets acknowledgements"
        ),
        "https://issues.apache.org/jira/browse/AMQ-8201",
        convicts=(Trial(COMPACTED, "openwire", Kind.BROKEN, system="activemq==5.16.1"),),
        acquits=tuple(
            Trial(COMPACTED, "openwire", Kind.KEPT, system=each)
            for each in ("activemq==5.16.2", "activemq")
        ),
    ),
)
