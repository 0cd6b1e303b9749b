"""Attach to a Kafka cluster that already runs: the wire stands between it and the pipeline's
programs.

lostack kills only the programs, never a broker of the cluster. If it has several, lostack may ask
it to elect other leaders of the pipeline's own topics. The wire puts addresses of its own
into the brokers' answers, so that the programs reach every broker through it. On a prepared cluster
each broker has a listener per stage instead, ``LOSTACK_CONSUMER`` and the like, whose advertised
address is where the wire listens; lostack reads these addresses from the brokers' settings. In the
cluster it changes only topics that the pipeline names and groups that the pipeline's programs use,
and only those that did not exist at the beginning.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from harness.model.failures import CellFailure, EnvironmentFailure
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.provision.certificates import make_certificates, private
from harness.run.wire import start_wire
from harness.runtimes.process.runtime import ProcessRuntime
from harness.systems.declared.brokers.attachment import Attachment, Entrances
from harness.systems.declared.brokers.kafka import (
    OBSERVER,
    OBSERVERS_CLIENT,
    clean,
    create,
    delete,
)
from harness.systems.kafka.observer import Observer
from harness.wire.messages import Route, Tls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.controls import Target
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment, Role
    from harness.pipelines.broker import TopicSettings
    from harness.pipelines.security import DeclaredSecurity
    from harness.run.wire import RunningWire
    from harness.runtimes.interface import Runtime
    from harness.stages.access import Access
    from harness.wire.control import WireControl

CREATED_S = 30.0
"""How long (seconds) it may take until the pipeline's topics are those that lostack created."""
WIRE_ENDS_S = 5.0
"""How long (seconds) the wire may take to end by itself."""
AWAY_S = 1.0
"""How long (seconds) a deleted topic must stay away. A broker takes a client's next request when
it has answered the one before. So a request for the topic may wait behind a Fetch, which the
deletion ends. By default clients let a Fetch wait for 500 ms.
"""


class AttachedKafka:
    """A cluster that already runs. Implements :class:`harness.systems.declared.system.Source`."""

    attached = True

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment

    def prepare(self, say: Callable[[str], None]) -> None:
        """Do nothing: an attached cluster needs no download."""

    def brokers(
        self,
        need: Deployment,
        directory: Path,
        security: DeclaredSecurity | None,
        roles: tuple[str, ...] = (),
        size: int = 1,
    ) -> AttachedBrokers:
        """Return the cluster's brokers; no connection is made yet."""
        del need, security, roles, size  # the attachment's own pipeline says them
        return AttachedBrokers(self._attachment, directory)

    def versions(self) -> Mapping[str, str]:
        """Return the version of the observer's client: the versions of the cluster are
        not asked.
        """
        return {OBSERVER: importlib.metadata.version(OBSERVERS_CLIENT)}


class AttachedBrokers:
    """The wire in front of an attached cluster. Implements
    :class:`harness.systems.declared.brokers.kafka.KafkaBrokers`.
    """

    def __init__(self, attachment: Attachment, directory: Path) -> None:
        self.directory = directory
        self.runtime: Runtime = ProcessRuntime(directory=directory)
        self.own_access = attachment.access
        self.access: Access | None = None
        self.observer = Observer(attachment.bootstrap, self.runtime.check, self.own_access)
        self._attachment = attachment
        self._secrets = (directory / "secrets").absolute()
        self._authority = self._secrets / "authorities.pem"
        self._wire: RunningWire | None = None
        self._entrances = Entrances()
        self._ports: dict[str, int] = {}
        """The wire's port, by the name of the route."""
        self._groups_before: frozenset[str] = frozenset()
        self._groups_seen: set[str] = set()
        self._created: set[str] = set()
        self._made: set[str] = set()
        """Topics that programs made for themselves, by names of lostack's."""

    @property
    def wire(self) -> WireControl:
        """The wire's control."""
        if self._wire is None:
            raise RuntimeError("the wire is not up")
        return self._wire.control

    @property
    def direct(self) -> str:
        """The cluster's own address, without the wire."""
        return self._attachment.bootstrap

    @property
    def around(self) -> frozenset[str]:
        """The brokers' own addresses, if the wire puts its own into their answers."""
        return self._entrances.around

    def start(self) -> None:
        """Read the cluster's addresses and groups, without changing anything, and start the
        wire.
        """
        self._entrances = self._attachment.entrances()
        self._groups_before = frozenset(self.observer.groups())
        self.access = self._own_papers()
        routes = self._routes(*dict.fromkeys(each.role for each in self._entrances.listeners))
        self._wire = start_wire(self.runtime, self.directory, routes)
        self._ports = {each.name: each.listen_port for each in self.wire.routes()}

    def bootstrap(self, role: Role) -> str:
        """Return the bootstrap addresses for a stage, which are the wire's."""
        return ",".join(f"127.0.0.1:{self._ports[name]}" for name in self.routes(str(role)))

    def routes(self, *roles: str) -> tuple[str, ...]:
        """Return the names of the wire's routes for these roles."""
        return tuple(route.name for route in self._routes(*roles))

    def destination(self, topic: str) -> str:
        """Return the topic's name, unchanged."""
        return topic

    def _routes(self, *roles: str) -> tuple[Route, ...]:
        """Return the wire's routes, each from a port of the wire to the broker's own listener."""
        listeners = self._entrances.listeners
        several = len({each.node for each in listeners}) > 1
        return tuple(
            Route(
                f"{each.node}.{each.role}" if several else each.role,
                each.node,
                each.role,
                each.wire_port,
                each.port,
                upstream_host=each.host,
                protocol="kafka",
                follows=not self._attachment.prepared,
                **self._secured(each.host),
            )
            for each in listeners
            if each.role in roles
        )

    def _own_papers(self) -> Access | None:
        """Make a certificate authority for the wire, and return the programs' access: the broker's,
        but with this authority.

        The wire reads files of the run alone, so it gets a copy of the broker's authority.

        Raises:
            EnvironmentFailure: the broker's authority cannot be read.
        """
        if self.own_access is None:
            return None
        self._run = make_certificates(self._secrets)
        if self.own_access.authority:
            try:
                shutil.copyfile(self.own_access.authority, self._authority)
            except OSError as error:
                raise EnvironmentFailure(
                    f"cannot read the certificates {self.own_access.authority} ({error.strerror}): "
                    "correct ca in [security]"
                ) from error
        private(self._secrets / "users.json", json.dumps(self.own_access.users).encode())
        return replace(self.own_access, authority=str(self._run.authority))

    def _secured(self, host: str) -> dict[str, Any]:
        """Return a route's TLS and login settings."""
        if self.own_access is None:
            return {}
        ends = (
            Tls(
                str(self._run.server),
                str(self._authority) if self.own_access.authority else "",
                host,
            )
            if self.own_access.protocol.endswith("SSL")
            else None
        )
        return {
            "tls": ends,
            "users": str(self._secrets / "users.json") if self.own_access.mechanism else "",
        }

    def servers(self, history: HistoryWriter) -> Mapping[Role, Callable[[], Target]]:
        """Return nothing: lostack may not kill brokers that it did not start."""
        del history
        return {}

    def note_made(self, groups: Iterable[str], topics: Iterable[str]) -> None:
        """Note groups that the pipeline's programs used, and topics that they made for themselves:
        :meth:`clean` and :meth:`close` delete the topics, and those groups that are new.
        """
        self._groups_seen |= set(groups)
        self._made |= set(topics)

    def groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return the groups that the pipeline's programs were seen to use."""
        self._groups_seen |= set(seen)
        return tuple(sorted(self._groups_seen & set(self.observer.groups())))

    def deletable_groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return those of these groups that did not exist before the run."""
        return tuple(group for group in self.groups(seen) if group not in self._groups_before)

    def create(self, topics: Mapping[str, int], settings: TopicSettings, copies: int) -> None:
        """Create the pipeline's topics (name → partitions): if the declaration says nothing of
        several brokers, with the cluster's default replication factor.
        """
        self._created |= set(topics)
        replicas = copies if copies > 1 else -1

        def created() -> bool:
            if create(self.observer, topics, settings, replicas=replicas):
                return True
            delete(self.observer, topics)  # a program's request for the topic may have made it
            return False

        because = f"{', '.join(topics)} to be created with the pipeline's settings"
        wait_until(created, within_s=CREATED_S, because=because)

    def clean(self, topics: Iterable[str]) -> None:
        """Delete those topics of the pipeline that an earlier cell created, and what its programs
        made for themselves.
        """
        clean(self, (set(topics) & self._created) | self._made)
        self._created |= self._made
        self._made.clear()

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian or the wire died by itself."""
        self.runtime.check()
        if self._wire is not None:
            self._wire.check()

    def close(self) -> None:
        """End the wire's process, and delete the topics that lostack created. A late request for a
        topic makes it anew on a broker with ``auto.create.topics.enable``.

        Raises:
            EnvironmentFailure: a topic may be left on the cluster.
        """
        with ExitStack() as last_first:
            last_first.callback(shutil.rmtree, self._secrets, ignore_errors=True)
            last_first.callback(self.runtime.close)
            last_first.callback(self.observer.close)
            last_first.callback(self._delete_created)
            if self._wire is not None:
                last_first.callback(self._wire.node.terminate, WIRE_ENDS_S)
                last_first.callback(self._wire.close)

    def _delete_created(self) -> None:
        created, self._created = self._created | self._made, set()
        try:
            if created:
                clean(self, created)
                delete(self.observer, created, away_s=AWAY_S)
        except (CellFailure, KafkaError, WaitTimeoutError) as error:
            raise EnvironmentFailure(
                f"{', '.join(sorted(created))} may be left on {self.direct} (delete by hand): "
                f"{type(error).__name__}: {error}"
            ) from error
