"""The observer: read the logs over a direct listener, without the wire, both committed and
uncommitted.

One observer serves all cells of a broker. Every call holds its lock. After the death of a broker
its connections are closed and made anew.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    InvalidPartitionsError,
    KafkaError,
    KafkaTimeoutError,
    NotEnoughReplicasError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.admin import DescribeConfigsRequest

from harness.model.waiting import wait_until
from harness.systems.kafka.group_observer import GroupObserver
from harness.systems.kafka.log_copies import Leadership, LogCopy, LogEnds, WholeLog, copy_of
from harness.systems.kafka.observing import QUIET, patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Placement = Callable[[int], Sequence[int]]
    """Partition → the numbers of the brokers that keep copies of it; the first is the preferred
    leader.
    """

CREATED_S = 10.0
"""How long (seconds) a topic may take until all that ask see it."""


class Observer(GroupObserver):
    """Reads the logs and positions of a broker or cluster. ``check`` raises if the runtime broke;
    ``access``: its credentials.
    """

    @patiently
    def create_topics(
        self,
        topics: Mapping[str, tuple[int, Mapping[str, str]]],
        placement: Placement | None = None,
        replicas: int = 1,
    ) -> bool:
        """Create topics (name → partitions, configuration) that do not exist. Return false if one
        was there already: a broker may repeat the request by itself, or make a topic for a client
        that asks for it.

        ``placement``: the brokers of each partition; without it ``replicas`` says how many copies
        there are (-1: the default).
        """
        wanted: dict[str, dict[str, object]] = {}
        for name, (partitions, config) in topics.items():
            if placement is None:
                where: dict[str, object] = {
                    "num_partitions": partitions,
                    "replication_factor": replicas,
                }
            else:
                where = {
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "assignments": {p: list(placement(p)) for p in range(partitions)},
                }
            wanted[name] = {**where, "configs": dict(config)}
        try:
            self._make(wanted)
        except TopicAlreadyExistsError:
            made = False
        except KafkaTimeoutError:  # made, and perhaps not to be seen in time
            made = True
        else:
            return True
        wait_until(
            lambda: all(self.has(name) for name in wanted),
            within_s=CREATED_S,
            because=f"{', '.join(wanted)} to be there",
        )
        return made

    def grow(self, topic: str, partitions: int) -> None:
        """Increase a topic's partitions to a number, as an administrator does, and wait until each
        has a leader.
        """
        with (
            contextlib.suppress(InvalidPartitionsError),
            self._lock,
        ):  # a repeated request: the topic has them already
            self._admin_client().create_partitions({topic: partitions})

        def led() -> bool:
            found = self.leaderships(topic)
            return len(found) == partitions and all(one.leader >= 0 for one in found.values())

        wait_until(
            led, within_s=CREATED_S, because=f"{topic} to have {partitions} partitions", poll_s=0.05
        )
        self._forget_metadata()

    @patiently
    def leaderships(self, topic: str) -> dict[int, Leadership]:
        """Return the leader and replicas of each partition of a topic, as a broker of the cluster
        reports them.
        """
        with self._lock:
            described = self._admin_client().describe_topics([topic])
        return {
            part["partition_index"]: Leadership(
                part["leader_id"],
                part["leader_epoch"],
                tuple(part["replica_nodes"]),
                tuple(part["isr_nodes"]),
            )
            for part in described[0]["partitions"]
        }

    @patiently
    def reorder_replicas(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Change the order of the replicas of a topic's partitions; the first is the preferred
        leader.
        """
        with self._lock:
            wanted = {TopicPartition(topic, p): list(order) for p, order in replicas.items()}
            self._admin_client().alter_partition_reassignments(wanted)

    def tell_topic(self, topic: str, config: Mapping[str, str]) -> None:
        """Change a topic's configuration, as an administrator does."""
        with self._lock:
            self._admin_client().alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic, dict(config))]
            )

    def told_to(self, number: int, topic: str, name: str) -> str | None:
        """Return a setting of a topic as one broker knows it: brokers learn of a change one after
        the other.
        """
        request = DescribeConfigsRequest(
            resources=[(ConfigResourceType.TOPIC, topic, [name])], min_version=0
        )
        with self._lock:
            manager = self._admin_client()._manager  # noqa: SLF001 - there is no other way to ask one broker
            [told] = manager.run(manager.send, request, number).results
        return next((each.value for each in told.configs), None)

    def prefer_leaders(self, topics: Iterable[str]) -> None:
        """Elect the preferred leader of each partition, if it is in sync."""
        with self._lock:
            self._admin_client().elect_leaders(
                0, {t: list(self.leaderships(t)) for t in topics}, raise_errors=False
            )

    def refuses(self, topic: str, partition: int) -> bool:
        """Say whether the leader of a partition refuses a record with acks=all because too few
        replicas are in sync.
        """
        with self._lock:
            self._check()
            producer = KafkaProducer(
                **self._client | QUIET | {"request_timeout_ms": 1000},
                bootstrap_servers=self._bootstrap,
                acks="all",
                retries=0,
                delivery_timeout_ms=2000,
                enable_idempotence=False,
            )
            try:
                producer.send(topic, b"probe", partition=partition).get(timeout=3)
            except NotEnoughReplicasError:
                return True
            except KafkaError:
                return False
            else:
                return False
            finally:
                producer.close(timeout=0)

    @patiently
    def controller(self) -> int:
        """Return the number of the node that leads the controller quorum; -1 if none is known."""
        with self._lock:
            quorum = self._admin_client().describe_metadata_quorum()
        return int(quorum["topics"][0]["partitions"][0]["leader_id"])

    @patiently
    def ends(self, topic: str) -> dict[int, LogEnds]:
        """Return the end offsets of every partition of a topic, as of the moment when the high
        watermarks were asked for.

        The broker answers one isolation level at a time. The last stable offset is asked for
        second: if it is below the high watermark all the same, a transaction is open. In the other
        order, records that arrive in between would look like one.
        """
        with self._lock:
            known = self._reader("read_uncommitted").partitions_for_topic(topic) or ()
            partitions = [TopicPartition(topic, p) for p in sorted(known)]
            first = self._reader("read_uncommitted").beginning_offsets(partitions)
            last = self._reader("read_uncommitted").end_offsets(partitions)
            stable = self._reader("read_committed").end_offsets(partitions)
        return {
            p.partition: LogEnds(first[p], min(stable[p], last[p]), last[p]) for p in partitions
        }

    @patiently
    def copies(self, topic: str) -> list[LogCopy]:
        """Return every copy in a topic; ``visible`` says whether a read-committed reader sees it,
        too.
        """
        with self._lock:
            seen = {(r.partition, r.offset) for r in self._read(topic, "read_committed")}
            return [
                copy_of(r, visible=(r.partition, r.offset) in seen)
                for r in self._read(topic, "read_uncommitted")
            ]

    def log(self, topic: str) -> WholeLog:
        """Return a whole topic. The end offsets are read first, and copies that were appended later
        are left out.
        """
        ends = self.ends(topic)
        held = (
            copy
            for copy in self.copies(topic)
            if copy.partition not in ends or copy.offset < ends[copy.partition].end
        )
        return WholeLog(ends, tuple(held))

    def delete(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records of a topic below an offset per partition, as retention would."""
        with self._lock:
            self._admin_client().delete_records(
                {TopicPartition(topic, p): offset for p, offset in before.items()}
            )

    @patiently
    def visible(self, topic: str, since: Mapping[int, int]) -> dict[int, int]:
        """Return, for each partition, the offset of the last visible record at or above ``since``,
        if there is one.
        """
        with self._lock:
            last: dict[int, int] = {}
            for record in self._read(topic, "read_committed", since):
                last[record.partition] = max(record.offset, last.get(record.partition, -1))
            return last

    @patiently
    def transaction(self, transactional_id: str) -> str:
        """Return the state of a transaction as its coordinator reports it: Ongoing, CompleteAbort
        ...
        """
        with self._lock:
            return str(
                self._admin_client()
                .describe_transactions([transactional_id])[transactional_id]
                .state.value
            )

    def has(self, topic: str) -> bool:
        """Say whether a topic exists."""
        return bool(self.there((topic,)))

    @patiently
    def there(self, topics: Iterable[str]) -> list[str]:
        """Return those of these topics that exist."""
        with self._lock:
            known = set(self._admin_client().list_topics())
        return [topic for topic in topics if topic in known]

    def forget(self, topics: Iterable[str], groups: Iterable[str]) -> None:
        """Delete topics, and groups without members. A topic may be gone already: brokers learn of
        that one after the other.

        Raises:
            KafkaError: the cluster refuses one of them; the other topics are deleted.
        """
        refused: list[KafkaError] = []
        with self._lock:
            if groups := list(groups):
                self._admin_client().delete_groups(groups)
            for topic in topics:
                try:
                    self._admin_client().delete_topics([topic])
                except UnknownTopicOrPartitionError:
                    pass
                except KafkaError as error:
                    refused.append(error)
        self._forget_metadata()  # a new topic of the same name may have other leaders
        if refused:
            raise refused[0]
