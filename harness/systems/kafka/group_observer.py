"""Read and change the groups of a broker or cluster, as an administrator does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, RetriableError
from kafka.structs import OffsetAndMetadata

from harness.model.waiting import wait_until
from harness.systems.kafka.new_groups import (
    expel,
    groups_of,
    left_to,
    members_of,
    protocol_of,
)
from harness.systems.kafka.observing import READY_S, Clients, patiently

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from harness.stages.consumer_settings import GroupProtocol


class GroupObserver(Clients):
    """Reads the members and positions of groups, and changes them."""

    @patiently
    def positions(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed position of a group for each partition that has one."""
        with self._lock:
            offsets = self._admin_client().list_group_offsets({group: None})[group]
        return {
            p.partition: meta.offset
            for p, meta in offsets.items()
            if p.topic == topic and meta.offset >= 0
        }

    def save_positions(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """Save positions for a group without members, as an administrator does.

        Raises:
            RuntimeError: the broker refuses the positions.
        """
        wanted = {
            TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1)
            for p, offset in positions.items()
        }

        def saved() -> (
            dict[TopicPartition, type[KafkaError]] | None
        ):  # for the first group of a broker, the log of positions is still being created
            try:
                with self._lock:
                    told = dict(self._admin_client().alter_group_offsets(group, wanted))
            except RetriableError:
                return None
            return (
                None if any(issubclass(error, RetriableError) for error in told.values()) else told
            )

        told = wait_until(
            saved, within_s=READY_S, because=f"the positions of {group} to be saved", poll_s=0.05
        )
        if refused := {error.__name__ for error in told.values()} - {"NoError"}:
            raise RuntimeError(
                f"the positions of {group} could not be saved: {', '.join(sorted(refused))}"
            )

    def tell_group(
        self, group: str, config: Mapping[str, str], where_known: Mapping[str, str] | None = None
    ) -> None:
        """Set a group's configuration; leave out ``where_known`` for brokers before 4.3, which do
        not know these settings.

        Raises:
            RuntimeError: the broker refuses the settings.
        """
        wanted = {**config, **(where_known or {})}
        try:
            with self._lock:
                told = self._admin_client().alter_configs(
                    [ConfigResource(ConfigResourceType.GROUP, group, wanted)]
                )
        except ValueError:  # the broker does not know one of the settings
            if not where_known:
                raise
            self.tell_group(group, config)
            return
        if (said := told["group"][group]) != "OK":
            raise RuntimeError(f"the settings of the group {group} could not be set: {said}")

    @patiently
    def left_to(self, group: str, topic: str) -> Mapping[int, int]:
        """Return how many offsets of each partition a share group has not finished; see
        :func:`new_groups.left_to`.
        """
        with self._lock:
            return left_to(self._admin_client(), group, topic)

    @patiently
    def members(self, group: str, protocol: GroupProtocol | None = None) -> Mapping[str, str]:
        """Return the members of a group: member id → client id. ``protocol``: ``None`` if it is not
        known; the broker is asked for it then.
        """
        with self._lock:
            admin = self._admin_client()
            return members_of(admin, group, protocol or protocol_of(admin, group))

    @patiently
    def peopled(self) -> frozenset[str]:
        """Return the names of the groups that have members."""
        with self._lock:
            return frozenset(
                group for group, (_, peopled) in groups_of(self._admin_client()).items() if peopled
            )

    @patiently
    def groups(self) -> tuple[str, ...]:
        """Return the names of all consumer groups."""
        with self._lock:
            return tuple(sorted(group["group_id"] for group in self._admin_client().list_groups()))

    def expel(self, group: str, only: Collection[str] | None = None) -> int:
        """Remove every member from a group, or ``only`` these, as the session time-outs would;
        return how many were removed.
        """
        with self._lock:
            return expel(self._admin_client(), group, only)
