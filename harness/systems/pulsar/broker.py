"""A running Pulsar standalone: its settings, its start, and what it reports about its topics."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from harness.model.scenario import Role
from harness.provision.certificates import private
from harness.run.plain_folders import require_plain_folder
from harness.run.queue_broker import BROKER, Count, Message
from harness.run.runtimes import PROCESSES
from harness.run.served import ServedBroker
from harness.stages.pushing import SUBSCRIPTION_NAME, Cursor
from harness.systems.pulsar.admin import Admin
from harness.systems.pulsar.ledgers import (
    Done,
    Entry,
    entries_of,
    messages,
    only_subscription,
    readers_of,
)
from harness.wire.messages import Route

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from harness.run.runtimes import Runtimes
    from harness.runtimes.interface import NodeSpec
    from harness.stages.settings import Settings
    from harness.systems.pulsar.install import Install
    from harness.systems.pulsar.ledgers import Position

ROLES: Final = (Role.PRODUCER, Role.CONSUMER, Role.PROCESSOR)
_AT_ONCE: Final = (
    "persistence",
    {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 0.0,
    },
)
PLAIN, DEDUPLICATING = "public/default", "public/deduplicating"
_DEDUPLICATION: Final = ("deduplication", True)
NAMESPACES: Final[Mapping[str, Sequence[tuple[str, object]]]] = {
    PLAIN: (),
    DEDUPLICATING: (_DEDUPLICATION,),
    f"public/{Cursor.WRITTEN}": (_AT_ONCE, _DEDUPLICATION),
    f"public/{Cursor.FEW}": (_AT_ONCE, _DEDUPLICATION),
    f"public/{Cursor.SNAPSHOTS}": (_DEDUPLICATION,),
    f"public/{Cursor.PAUSING}": (
        _AT_ONCE,
        _DEDUPLICATION,
        ("dispatcherPauseOnAckStatePersistent", None),
    ),
}
"""The namespaces of cells' topics, each with its policies: whether the broker deduplicates by
producer and sequence, and when it writes acknowledgements down.
"""
HOST: Final = "127.0.0.1"
SETTINGS: Final[Mapping[str, object]] = {
    "transactionCoordinatorEnabled": "true",
    "clusterName": "standalone",
    "internalListenerName": "internal",
    "allowLoopback": "true",
    "managedLedgerDefaultEnsembleSize": 1,
    "managedLedgerDefaultWriteQuorum": 1,
    "managedLedgerDefaultAckQuorum": 1,
    "defaultRetentionTimeInMinutes": -1,
    "defaultRetentionSizeInMB": -1,
    "brokerDeleteInactiveTopicsEnabled": "false",
    "backlogQuotaCheckEnabled": "false",
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.NoopLoadManager",
    "diskUsageThreshold": 0.99,
    "diskUsageWarnThreshold": 0.98,
    "managedLedgerCacheSizeMB": 16,
    "numIOThreads": 2,
    "brokerShutdownTimeoutMs": 3000,
    "numHttpServerThreads": 6,
    "numExecutorThreadPoolSize": 2,
    "numOrderedExecutorThreads": 1,
    "numCacheExecutorThreadPoolSize": 1,
    "listeningInterface": "lo",
    "allowEphemeralPorts": "true",  # else the bookie opens a port on all interfaces
}
"""Settings that differ from the defaults. Acknowledged messages are kept, because the judge reads
the topics at the end.
"""
_FEW_RANGES: Final[Mapping[str, str]] = {
    "managedLedgerMaxUnackedRangesToPersist": "2",
    "managedLedgerPersistIndividualAckAsLongArray": "false",
}
"""A limit on the ranges of single acknowledgements that are written down; the broker writes one
more than it says. The limit applies only in the format that was the default until 4.1: the newer
one writes all ranges of a ledger.
"""
BESIDES: Final[Mapping[Cursor, Mapping[str, str]]] = {
    Cursor.FEW: _FEW_RANGES,
    Cursor.PAUSING: _FEW_RANGES,
    Cursor.SNAPSHOTS: {"brokerDeduplicationEntriesInterval": "5"},
}
"""Broker settings for cells that need what no namespace policy can say."""


def besides(settings: Settings) -> Mapping[str, str]:
    """Return the additional broker settings for a cell with these settings."""
    return BESIDES.get(settings.consumer.push.cursor, {})


def namespace_of(settings: Settings) -> str:
    """Return the namespace for the topics of a cell with these settings."""
    cursor = settings.consumer.push.cursor
    if cursor is not Cursor.LAZY:
        return f"public/{cursor}"
    return DEDUPLICATING if settings.producer.names_records else PLAIN


class PulsarBroker(ServedBroker):
    """A Pulsar standalone behind its wire. Implements
    :class:`harness.run.queue_broker.QueueBroker`.
    """

    start_s = 90.0

    def __init__(
        self,
        install: Install,
        directory: Path,
        runtimes: Runtimes = PROCESSES,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """``settings``: a user's, as in ``broker.conf``."""
        super().__init__(directory, 4 + 2 * len(ROLES), runtimes)
        self._program = runtimes.fit(install.server)
        self._binary, self._http, self._bookie, self._to_itself, *others = self.ports
        self._ports = dict(zip(ROLES, others[: len(ROLES)], strict=True))
        """Role → the wire's port, to which its clients connect."""
        self._behind = dict(zip(ROLES, others[len(ROLES) :], strict=True))
        """Role → the broker's port behind the wire. The broker knows from the port which address to
        tell its clients.
        """
        self._settings: Mapping[str, str] = dict(settings or {})
        self._namespaces: dict[str, str] = {}
        self._entries: dict[tuple[str, Position], Entry] = {}
        """The entries that were read. An entry changes only when its transaction ends."""

    def routes(self) -> Sequence[Route]:
        """Return the wire's routes, one for each role."""
        return [
            Route(
                role,
                BROKER,
                role,
                self._ports[role],
                self._behind[role],
                self.runtime.bind,
                self.runtime.address(BROKER),
                protocol="pulsar",
            )
            for role in ROLES
        ]

    def own_routes(self) -> Sequence[Route]:
        """Return the route on which the coordinator tells partitions and subscriptions the end of a
        transaction.
        """
        return [
            Route(
                Role.BROKER,
                BROKER,
                Role.BROKER,
                self._to_itself,
                self._binary,
                self.runtime.bind,
                self.runtime.address(BROKER),
                protocol="pulsar",
            )
        ]

    def spec(self) -> NodeSpec:
        """Return the node that starts the broker on its present data.

        Raises:
            EnvironmentFailure: the folder's name has a space or the like, and Pulsar makes a URI
                of it.
        """
        require_plain_folder(self.data, "Pulsar")
        self._configure()
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        data = self.data.absolute()
        words = (
            "--config",
            str(self._conf),
            "-nss",
            "-nfw",
            "--metadata-dir",
            str(data / "metadata"),
            "--bookkeeper-dir",
            str(data / "bookkeeper"),
            "--bookkeeper-port",
            str(self._bookie),
        )
        # the JVM unpacks native libraries there, and leaves them behind when it is killed
        return self.on_jars(
            self._program, self._http, *words, flags=(f"-Djava.io.tmpdir={self._scratch}",)
        )

    @property
    def data(self) -> Path:
        """The folder of the broker's data."""
        return self._directory / "data"

    def answers(self) -> bool:
        """Say whether the broker is healthy; create the namespaces if it is.

        Raises:
            OSError: the broker does not answer.
        """
        with Admin(self._http) as admin:
            if not admin.healthy():
                return False
            for (
                name,
                policies,
            ) in NAMESPACES.items():  # at its first start the broker creates their tenant last
                admin.make_namespace(name, policies)
        return True

    def address(self, role: Role) -> str:
        """Return the address for programs of a role, which is the wire's."""
        return f"{self.runtime.address('wire')}:{self._ports[role]}"

    @property
    def direct(self) -> str:
        """The broker's own address, without the wire."""
        return f"{HOST}:{self._binary}"

    def place(self, key: str, namespace: str) -> None:
        """Choose the namespace for the topics of a cell, which is named by its key."""
        self._namespaces[key] = namespace

    def queue(self, name: str) -> str:
        """Return a topic's full name, with the namespace of its cell."""
        return f"persistent://{self._namespaces.get(name.partition('.')[0], PLAIN)}/{name}"

    def dead_letters(self, queue: str) -> str:
        """Return the topic into which clients put the dead letters of the queue's subscription, if
        they name none. Without a subscription, or with several: of lostack's own.
        """
        with Admin(self._http) as admin:
            said = admin.of_topic(queue, "stats")
        names = readers_of(said["subscriptions"]) if said else ()
        name = names[0] if len(names) == 1 else SUBSCRIPTION_NAME
        return f"{queue}-{name}-DLQ"

    def called(self, name: str) -> str:
        """Return the name unchanged: a client's message id is the place of the copy."""
        return name

    def messages(self, queue: str) -> tuple[Message, ...]:
        """Return every copy that a topic has held, entry by entry, as the broker reads it from its
        bookie.
        """
        with Admin(self._http) as admin:
            internal = admin.of_topic(queue, "internalStats")
            if internal is None:
                return ()
            cursor = only_subscription(internal["cursors"])
            entries = [self._entry(admin, queue, at) for at in entries_of(internal)]
        return messages(entries, None if cursor is None else Done.of(cursor))

    def _entry(self, admin: Admin, queue: str, at: Position) -> Entry:
        known = self._entries.get((queue, at))
        if known is not None and known.is_final:
            return known
        headers, body = admin.entry(queue, *at)
        found = self._entries[queue, at] = Entry(at, headers, body)
        return found

    def count(self, queue: str) -> Count:
        """Return how many messages wait in the subscription, from the broker's statistics."""
        with Admin(self._http) as admin:
            said = admin.of_topic(queue, "stats?getPreciseBacklog=true")
        subscription = (said and only_subscription(said["subscriptions"])) or {}
        waiting, given = subscription.get("msgBacklog", 0), subscription.get("unackedMessages", 0)
        return Count(waiting - given, given)

    def close(self) -> None:
        """Stop everything. Safe to call twice, and before anything was started."""
        super().close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def _conf(self) -> Path:
        return (self._directory / "standalone.conf").absolute()

    def _configure(self) -> None:
        told = ",".join(f"{role}:pulsar://{self.address(role)}" for role in ROLES)
        settings: Mapping[str, object] = (
            dict(SETTINGS)
            | dict(self._settings)
            | dict(self.told)
            | {
                "brokerServicePort": self._binary,
                "webServicePort": self._http,
                "bindAddress": self.runtime.bind,
                "bindAddresses": ",".join(
                    f"{role}:pulsar://{self.runtime.bind}:{port}"
                    for role, port in self._behind.items()
                ),
                "advertisedListeners": f"internal:pulsar://{self.runtime.address('wire')}:{self._to_itself},{told}",
            }
        )
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        private(self._conf, text.encode())  # a user's settings are among them

    @property
    def _scratch(self) -> Path:
        return (self._directory / "tmp").absolute()
