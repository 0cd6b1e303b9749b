"""Attach to a Kafka cluster that already runs: the wire stands between it and the pipeline's
programs.

lostack kills only the programs, never a broker of the cluster. The wire puts addresses of its own
into the brokers' answers, so that the programs reach every broker through it. By the other way each
broker has a listener per stage, ``LOSTACK_CONSUMER`` and the like, whose advertised address is
where the wire listens; lostack reads these addresses from the brokers' settings. In the cluster it
changes only topics that the pipeline names and groups that the pipeline's programs use, and only
those that did not exist at the beginning.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import ipaddress
import itertools
import json
import shutil
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError, UnknownBrokerIdError

from harness.model.failures import EnvironmentFailure, UsageError
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.pipelines.broker import Broker
from harness.pipelines.refusing import DeclarationError
from harness.provision.certificates import make_certificates, private
from harness.provision.probing import probe
from harness.run.wire import start_wire
from harness.runtimes.process.runtime import ProcessRuntime
from harness.stages.access import Access
from harness.systems.declared.brokers.kafka import OBSERVER, OBSERVERS_CLIENT, clean, create
from harness.systems.kafka.observer import Observer
from harness.wire.messages import Route, Tls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.controls import Target
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment, Role
    from harness.pipelines.broker import TopicSettings
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.security import DeclaredSecurity
    from harness.run.wire import RunningWire
    from harness.runtimes.interface import Runtime
    from harness.wire.control import WireControl

LISTENER = "LOSTACK_"
"""The prefix of a listener's name; the role follows in capitals."""
ANSWER_MS = 10_000
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - what a broker's own settings say, not what is bound here


@dataclass(frozen=True, slots=True)
class Listener:
    """One broker's listener for one role: its own address, and the advertised port, on which the
    wire must listen (0: any, because the wire leads on from there).
    """

    node: str
    role: str
    host: str
    port: int
    wire_port: int


def is_loopback(host: str) -> bool:
    """Say whether a host is a loopback address of this machine.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "10.0.0.9")]
    [True, True, True, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def addresses(text: str) -> dict[str, tuple[str, int]]:
    """Parse a broker's ``listeners`` setting: name → host and port.

    >>> addresses("PLAINTEXT://:9092,LOSTACK_CONSUMER://127.0.0.1:9192")
    {'PLAINTEXT': ('', 9092), 'LOSTACK_CONSUMER': ('127.0.0.1', 9192)}
    """
    found = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, _, at = each.partition("://")
        host, _, port = at.rpartition(":")
        found[name.upper()] = (host.strip("[]"), int(port))
    return found


def listeners_of(
    node: str,
    host: str,
    settings: Mapping[str, str],
    roles: Iterable[str],
    protocol: str = "PLAINTEXT",
) -> tuple[Listener, ...]:
    """Return a broker's listeners for roles.

    ``protocol``: the security protocol of the pipeline's programs, which the listeners must have,
    too.

    Raises:
        EnvironmentFailure: a listener is missing or wrong; the message says what to add.
    """
    spoken = dict(
        each.split(":")
        for each in filter(
            None, settings.get("listener.security.protocol.map", "").upper().split(",")
        )
    )
    own, advertised = (
        addresses(settings.get("listeners") or ""),
        addresses(settings.get("advertised.listeners") or ""),
    )
    found = []
    for role in roles:
        name = LISTENER + role.upper()
        if name not in own or name not in advertised:
            raise EnvironmentFailure(
                f"{node} has no listener {name}: add to its settings "
                f"listeners=...,{name}://127.0.0.1:19092 and "
                f"advertised.listeners=...,{name}://127.0.0.1:29092 and "
                f"listener.security.protocol.map=...,{name}:{protocol} (any two free ports, "
                "different ones for each role and broker) and restart it"
            )
        at, port = own[name]
        told, wire_port = advertised[name]
        if not is_loopback(told) or wire_port == port:
            raise EnvironmentFailure(
                f"{node} advertises {name} at {told}:{wire_port}, and the wire must listen "
                "there: advertise a free port of 127.0.0.1 that is not the listener's own port "
                f"{port}"
            )
        if spoken.get(name, protocol) != protocol:
            raise EnvironmentFailure(
                f"{node} speaks {spoken[name]} at {name}, but the pipeline's programs speak "
                f"{protocol}: set listener.security.protocol.map=...,{name}:{protocol} on the "
                "broker, or change the pipeline's [security]"
            )
        found.append(Listener(node, role, host if at in EVERYWHERE else at, port, wire_port))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A cluster and the pipeline that attaches to it. ``remote``: the cluster may be on another
    machine. ``prepared``: its brokers have a listener for each stage.
    """

    bootstrap: str
    pipeline: Pipeline
    remote: bool = False
    prepared: bool = False

    @property
    def security(self) -> DeclaredSecurity | None:
        """How the pipeline's programs, and lostack itself, authenticate to the cluster."""
        return self.pipeline.security

    @property
    def access(self) -> Access | None:
        """The credentials with which lostack itself connects; ``None`` for a cluster without
        security.

        Raises:
            DeclarationError: the environment variable with the password is not set.
        """
        declared = self.security
        if declared is None:
            return None
        ca = str((self.pipeline.directory / declared.ca).absolute()) if declared.ca else ""
        return Access(
            declared.protocol, ca, declared.mechanism, declared.username, declared.password()
        )

    def check(self) -> None:
        """Check that the pipeline can run on this cluster.

        Raises:
            UsageError: the address is not HOST:PORT, or is on another machine without
                ``--attach-remote``.
            DeclarationError: the pipeline does not run on Kafka, or logs in without a username.
        """
        if not self.pipeline.dialect.logs:
            raise DeclarationError(
                f"system: only Kafka can be attached to, not {self.pipeline.system}"
            )
        if self.pipeline.broker != Broker():
            raise DeclarationError(
                "broker: lostack starts no broker with --attach: take [broker] away"
            )
        if self.security is not None and self.security.mechanism and not self.security.username:
            raise DeclarationError(
                f"security: {self.bootstrap} has users of its own: give username and password_from"
            )
        if self.security is not None:
            self.security.password()
        for each in self.bootstrap.split(","):
            host, _, port = each.rpartition(":")
            if not host or not port.isdigit():
                raise UsageError(f"--attach {each!r} is not HOST:PORT")
            self.allow(host)

    def allow(self, host: str) -> None:
        """Raise UsageError if a host is another machine and ``--attach-remote`` was not given."""
        if not self.remote and not is_loopback(host):
            raise UsageError(
                f"{host} is another machine, and a check creates and deletes topics there: give "
                "--attach-remote to allow that"
            )

    def entrances(self) -> Entrances:
        """Ask the brokers where the wire leads to, and check that none of the pipeline's topics
        exists.

        Raises:
            EnvironmentFailure: the brokers do not answer.
        """
        self.check()
        if self.access is not None and self.access.protocol.endswith("SSL"):
            for each in self.bootstrap.split(","):
                self._probe(each, self.access.authority)
        try:
            return wait_until(
                self._ask,
                within_s=ANSWER_MS / 1000,
                because="the brokers to know each other",
                poll_s=0.2,
            )
        except (KafkaError, OSError, WaitTimeoutError) as error:
            raise EnvironmentFailure(
                f"the cluster at {self.bootstrap} does not answer: {type(error).__name__}: {error}"
            ) from error

    @staticmethod
    def _probe(at: str, authority: str) -> None:
        try:
            probe(*_at(at), authority, "security: ca")
        except OSError as error:
            raise EnvironmentFailure(
                f"the cluster at {at} does not answer: {type(error).__name__}: {error}"
            ) from error

    def _ask(self) -> Entrances | None:
        """Ask once; ``None`` if one broker does not know another broker at the moment."""
        roles = [str(stage.known) for stage in self.pipeline.stages]
        with contextlib.suppress(UnknownBrokerIdError):
            admin = KafkaAdminClient(
                bootstrap_servers=self.bootstrap,
                request_timeout_ms=ANSWER_MS,
                bootstrap_timeout_ms=ANSWER_MS,
                **(self.access.for_kafka_python() if self.access else {}),
            )
            try:
                if there := sorted(set(self.pipeline.topics) & set(admin.list_topics())):
                    raise EnvironmentFailure(
                        f"the topic {there[0]} exists on {self.bootstrap}, and a check creates "
                        "and deletes its topics: delete it, or let the pipeline use another name"
                    )
                brokers = admin.describe_cluster()["brokers"]
                if self.prepared:
                    return Entrances(
                        tuple(each for broker in brokers for each in self._of(admin, broker, roles))
                    )
                return self._led(brokers, roles)
            finally:
                admin.close()
        return None

    def _led(self, brokers: Iterable[Mapping[str, object]], roles: Iterable[str]) -> Entrances:
        """Return an entrance for each role and bootstrap address: the wire leads on from there."""
        own = [_at(each) for each in self.bootstrap.split(",")]
        for broker in brokers:
            self.allow(str(broker["host"]))
            own.append((str(broker["host"]), int(str(broker["port"]))))
        asked = own[: self.bootstrap.count(",") + 1]
        names = ("bootstrap",) if len(asked) == 1 else itertools.count(1)
        entrances = tuple(
            Listener(name if isinstance(name, str) else f"bootstrap-{name}", role, *at, 0)
            for name, at in zip(names, asked, strict=False)
            for role in roles
        )
        around = {f"{address}:{port}" for host, port in own for address in resolved(host)}
        return Entrances(entrances, frozenset(around))

    def _of(
        self, admin: Any, broker: Mapping[str, Any], roles: Iterable[str]
    ) -> tuple[Listener, ...]:
        number, host = broker["broker_id"], str(broker["host"])
        settings = _settings(admin, number)
        spoken = self.security.protocol if self.security else "PLAINTEXT"
        found = listeners_of(f"broker-{number}", host, settings, roles, spoken)
        for each in found:
            self.allow(each.host)
        return found


@dataclass(frozen=True, slots=True)
class Entrances:
    """Where the wire leads to, for each role. ``around``: the brokers' own addresses, which a
    program must not use.
    """

    listeners: tuple[Listener, ...] = ()
    around: frozenset[str] = frozenset()


def _at(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def resolved(host: str) -> list[str]:
    """Return the addresses of a host, as :mod:`harness.runtimes.process.peers` writes them; none if
    its name cannot be resolved.

    >>> resolved("127.0.0.1"), resolved("::1")
    (['127.0.0.1'], ['[::1]'])
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):  # no host, or no name of one
        return []
    return [f"[{at[0]}]" if family == socket.AF_INET6 else str(at[0]) for family, *_, at in found]


def _settings(admin: Any, number: int) -> dict[str, str]:
    """Return a broker's own settings, as text."""
    described = admin.describe_configs(
        [ConfigResource(ConfigResourceType.BROKER, str(number))], config_filter="all"
    )
    [by_name] = described.values()
    return {
        name: str(each["value"] or "")
        for settings in by_name.values()
        for name, each in settings.items()
    }


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
                    f"cannot read the certificates {self.own_access.authority}: {error.strerror}"
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

    def groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return the groups that the pipeline's programs were seen to use."""
        self._groups_seen |= set(seen)
        return tuple(sorted(self._groups_seen & set(self.observer.groups())))

    def ours(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return those of these groups that did not exist before the run."""
        return tuple(group for group in self.groups(seen) if group not in self._groups_before)

    def create(self, topics: Mapping[str, int], settings: TopicSettings, copies: int) -> None:
        """Create the pipeline's topics (name → partitions), with the cluster's default replication
        factor.
        """
        del copies
        self._created |= set(topics)
        create(self.observer, topics, settings, replicas=-1)

    def clean(self, topics: Iterable[str]) -> None:
        """Delete those topics of the pipeline that an earlier cell created."""
        clean(self, set(topics) & self._created)

    def check(self) -> None:
        """Raise EnvironmentFailure if the guardian or the wire died by itself."""
        self.runtime.check()
        if self._wire is not None:
            self._wire.check()

    def close(self) -> None:
        """Delete the topics that lostack created, and stop the wire.

        Raises:
            EnvironmentFailure: a topic may be left on the cluster.
        """
        created, self._created = self._created, set()
        try:
            if created:
                clean(self, created)
        except (KafkaError, WaitTimeoutError) as error:
            raise EnvironmentFailure(
                f"{', '.join(sorted(created))} may be left on {self.direct} (delete by hand): "
                f"{type(error).__name__}: {error}"
            ) from error
        finally:
            self.observer.close()
            if self._wire is not None:
                self._wire.close()
            self.runtime.close()
            shutil.rmtree(self._secrets, ignore_errors=True)
