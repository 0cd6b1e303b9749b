"""A Kafka that is already up, and somebody else's: lostack stands between it and the pipeline's programs, and kills only those.

Its brokers have a listener per stage, ``LOSTACK_CONSUMER`` and the like, whose advertised address is where the wire listens:
what the programs learn from the broker leads them through the wire. Which addresses those are is asked of the brokers' own
settings. Of what the cluster holds, lostack touches the topics that the pipeline names, which must not be there at the
beginning, and groups that were not there either and that the pipeline's programs were seen to use.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import ipaddress
import json
import shutil
import socket
import ssl
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError, UnknownBrokerIdError

from harness.model.failures import EnvironmentFailure, UsageError
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.pipelines.refusing import DeclarationError
from harness.provision.certificates import make_certificates, private
from harness.run.wire import start_wire
from harness.runtimes.ports import PortLease
from harness.runtimes.process.runtime import ProcessRuntime
from harness.stages.access import Access
from harness.systems.declared.brokers import OBSERVER, OBSERVERS_CLIENT, clean
from harness.systems.kafka.observer import Observer
from harness.wire.messages import Route, Tls
from harness.wire.tls import why_not_let_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from harness.controls import Target
    from harness.model.history import HistoryWriter
    from harness.model.scenario import Deployment, Role
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.security import DeclaredSecurity
    from harness.run.wire import RunningWire
    from harness.runtimes.interface import Runtime
    from harness.wire.control import WireControl

LISTENER = "LOSTACK_"
"""Before a role, in capitals: the name of the listener that belongs to it."""
ANSWER_MS = 10_000
_HELLO = bytes([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 0, 255, 255])
"""An ApiVersions request of nobody."""
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - what a broker's own settings say, not what is bound here


@dataclass(frozen=True, slots=True)
class Listener:
    """One broker's listener for one role: where it is, and where it says that it is, which is where the wire must be."""

    node: str
    role: str
    host: str
    port: int
    wire_port: int


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine and nothing else.

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
    """Return the listeners of a broker's setting by name.

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
    node: str, host: str, settings: Mapping[str, str], roles: Iterable[str], protocol: str = "PLAINTEXT"
) -> tuple[Listener, ...]:
    """Return a broker's listeners for roles.

    ``protocol``: what the pipeline's programs speak, and so must they.

    Raises:
        EnvironmentFailure: a listener is missing or wrong; the line says what to add.
    """
    spoken = dict(each.split(":") for each in filter(None, settings.get("listener.security.protocol.map", "").upper().split(",")))
    own, advertised = addresses(settings.get("listeners") or ""), addresses(settings.get("advertised.listeners") or "")
    found = []
    for role in roles:
        name = LISTENER + role.upper()
        if name not in own or name not in advertised:
            raise EnvironmentFailure(
                f"{node} has no listener {name}: add to its settings listeners=...,{name}://127.0.0.1:19092 and "
                f"advertised.listeners=...,{name}://127.0.0.1:29092 and listener.security.protocol.map=...,{name}:{protocol} "
                "(any two free ports, others for each role and broker) and restart it"
            )
        at, port = own[name]
        told, wire_port = advertised[name]
        if not is_loopback(told) or wire_port == port:
            raise EnvironmentFailure(
                f"{node} advertises {name} at {told}:{wire_port}: it must be a port of 127.0.0.1 that is not its own, {port}, "
                "for the wire to listen on"
            )
        if spoken.get(name, protocol) != protocol:
            raise EnvironmentFailure(
                f"{node} speaks {spoken[name]} at {name}, and the pipeline's programs speak {protocol}: let both say the same, "
                f"listener.security.protocol.map=...,{name}:{protocol} or the pipeline's [security]"
            )
        found.append(Listener(node, role, host if at in EVERYWHERE else at, port, wire_port))
    return tuple(found)


def probe(at: str, authority: str) -> None:
    """Speak TLS with a broker until it has answered.

    Raises:
        EnvironmentFailure: the two cannot agree; the line says why.
    """
    host, _, port = at.rpartition(":")
    try:
        context = ssl.create_default_context(cafile=authority or None)
    except OSError as error:
        raise EnvironmentFailure(f"security: ca: {authority}: {error.strerror or error}") from error
    try:
        with (
            socket.create_connection((host, int(port)), timeout=ANSWER_MS / 1000) as sock,
            context.wrap_socket(sock, server_hostname=host.strip("[]")) as secured,
        ):
            secured.sendall(_HELLO)
            secured.recv(1)  # of a certificate that it misses a broker tells behind the greeting
    except ssl.SSLError as error:
        raise EnvironmentFailure(f"the cluster at {at}: {why_not_let_in(error)}") from error
    except OSError as error:
        raise EnvironmentFailure(f"the cluster at {at} does not answer: {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Attachment:
    """Which cluster, for which pipeline. ``remote``: it need not be on this machine."""

    bootstrap: str
    pipeline: Pipeline
    remote: bool = False

    @property
    def security(self) -> DeclaredSecurity | None:
        """How the pipeline's programs come to it, and lostack, too."""
        return self.pipeline.security

    @property
    def access(self) -> Access | None:
        """What lostack itself is let in by.

        Raises:
            DeclarationError: the environment variable with the password is not set.
        """
        declared = self.security
        if declared is None:
            return None
        ca = str((self.pipeline.directory / declared.ca).absolute()) if declared.ca else ""
        return Access(declared.protocol, ca, declared.mechanism, declared.username, declared.password())

    def check(self) -> None:
        """Make sure that the pipeline can be run at the address.

        Raises:
            UsageError: the address is none, or is not this machine's and that was not allowed.
            DeclarationError: the pipeline logs in, and does not say who.
        """
        if not self.pipeline.dialect.logs:
            raise DeclarationError(f"system: only Kafka can be attached to, not {self.pipeline.system}")
        if self.security is not None and self.security.mechanism and not self.security.username:
            raise DeclarationError(f"security: the users of {self.bootstrap} are its owner's: say username and password_from")
        if self.security is not None:
            self.security.password()
        for each in self.bootstrap.split(","):
            host, _, port = each.rpartition(":")
            if not host or not port.isdigit():
                raise UsageError(f"--attach {each!r} is no HOST:PORT")
            self.allow(host)

    def allow(self, host: str) -> None:
        """Raise UsageError where a host is not this machine and that was not allowed."""
        if not self.remote and not is_loopback(host):
            raise UsageError(
                f"{host} is not this machine, and a check creates and deletes its topics there: "
                "say --attach-remote if that is what you want"
            )

    def listeners(self) -> tuple[Listener, ...]:
        """Ask the brokers for their listeners, and whether the pipeline's topics are there, which must not be.

        Raises:
            EnvironmentFailure: the brokers do not answer.
        """
        self.check()
        if self.access is not None and self.access.protocol.endswith("SSL"):
            for each in self.bootstrap.split(","):
                probe(each, self.access.authority)
        try:
            return wait_until(self._ask, within_s=ANSWER_MS / 1000, because="its brokers to know each other", poll_s=0.2)
        except (KafkaError, OSError, WaitTimeoutError) as error:
            raise EnvironmentFailure(
                f"the cluster at {self.bootstrap} does not answer: {type(error).__name__}: {error}"
            ) from error

    def _ask(self) -> tuple[Listener, ...] | None:
        """Ask once; ``None`` where one broker does not know another yet, or not any more."""
        roles = [str(stage.known) for stage in self.pipeline.stages]
        with contextlib.suppress(UnknownBrokerIdError):
            admin = KafkaAdminClient(
                bootstrap_servers=self.bootstrap, request_timeout_ms=ANSWER_MS, bootstrap_timeout_ms=ANSWER_MS,
                **(self.access.for_kafka_python() if self.access else {}),
            )  # fmt: skip
            try:
                if there := sorted(set(self.pipeline.topics) & set(admin.list_topics())):
                    raise EnvironmentFailure(
                        f"the topic {there[0]} is on {self.bootstrap} already, and a check creates and deletes its topics: "
                        "delete it, or let the pipeline use another name"
                    )
                brokers = admin.describe_cluster()["brokers"]
                return tuple(each for broker in brokers for each in self._of(admin, broker, roles))
            finally:
                admin.close()
        return None

    def _of(self, admin: Any, broker: Mapping[str, Any], roles: Iterable[str]) -> tuple[Listener, ...]:
        number, host = broker["broker_id"], str(broker["host"])
        settings = _settings(admin, number)
        spoken = self.security.protocol if self.security else "PLAINTEXT"
        found = listeners_of(f"broker-{number}", host, settings, roles, spoken)
        for each in found:
            self.allow(each.host)
        return found


def _settings(admin: Any, number: int) -> dict[str, str]:
    """Return a broker's own settings, as text."""
    described = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, str(number))], config_filter="all")
    [by_name] = described.values()
    return {name: str(each["value"] or "") for settings in by_name.values() for name, each in settings.items()}


class AttachedKafka:
    """Brokers that are up already. Implements :class:`harness.systems.declared.system.Source`."""

    attached = True

    def __init__(self, attachment: Attachment) -> None:
        self._attachment = attachment

    def prepare(self, say: Callable[[str], None]) -> None:
        """Fetch nothing."""

    def brokers(
        self, need: Deployment, directory: Path, security: DeclaredSecurity | None, roles: tuple[str, ...] = ()
    ) -> AttachedBrokers:
        """Return them; nothing was looked at yet."""
        del need, security, roles  # which is that of the attachment's own pipeline
        return AttachedBrokers(self._attachment, directory)

    def versions(self) -> Mapping[str, str]:
        """Only the observer's client is ours."""
        return {OBSERVER: importlib.metadata.version(OBSERVERS_CLIENT)}


class AttachedBrokers:
    """The wire in front of somebody else's brokers. Implements :class:`harness.systems.declared.brokers.KafkaBrokers`."""

    def __init__(self, attachment: Attachment, directory: Path) -> None:
        self.directory = directory
        self.runtime: Runtime = ProcessRuntime(directory=directory)
        self.own_access = attachment.access
        self.access: Access | None = None
        self.observer = Observer(attachment.bootstrap, self.runtime.check, self.own_access)
        self._attachment = attachment
        self._secrets = (directory / "secrets").absolute()
        self._lease = PortLease(1)
        self._wire: RunningWire | None = None
        self._listeners: tuple[Listener, ...] = ()
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
        """Where the cluster is reached past the wire."""
        return self._attachment.bootstrap

    def start(self) -> None:
        """Look at the cluster, change nothing, and start the wire."""
        self._listeners = self._attachment.listeners()
        self._groups_before = frozenset(self.observer.groups())
        self.access = self._own_papers()
        routes = self._routes(*dict.fromkeys(each.role for each in self._listeners))
        self._wire = start_wire(self.runtime, self.directory, self._lease.port, routes)

    def bootstrap(self, role: Role) -> str:
        """Return the addresses that a stage is given: the wire's."""
        return ",".join(f"127.0.0.1:{each.wire_port}" for each in self._listeners if each.role == role)

    def routes(self, *roles: str) -> tuple[str, ...]:
        """Return the names of the wire's routes for these roles."""
        return tuple(route.name for route in self._routes(*roles))

    def destination(self, topic: str) -> str:
        """Return its name: it is that everywhere."""
        return topic

    def _routes(self, *roles: str) -> tuple[Route, ...]:
        """Return the wire's routes: a listener's advertised address to its own."""
        several = len({each.node for each in self._listeners}) > 1
        return tuple(
            Route(
                f"{each.node}.{each.role}" if several else each.role, each.node, each.role, each.wire_port, each.port,
                upstream_host=socket.gethostbyname(each.host), protocol="kafka", **self._secured(each.host),
            )
            for each in self._listeners if each.role in roles
        )  # fmt: skip

    def _own_papers(self) -> Access | None:
        """Make what the programs trust, and return how they come to the wire: as to the broker, but for whom they trust."""
        if self.own_access is None:
            return None
        self._run = make_certificates(self._secrets)
        private(self._secrets / "users.json", json.dumps(self.own_access.users).encode())
        return replace(self.own_access, authority=str(self._run.authority))

    def _secured(self, host: str) -> dict[str, Any]:
        """Return what a route is told of how its clients come."""
        if self.own_access is None:
            return {}
        ends = Tls(str(self._run.server), self.own_access.authority, host) if self.own_access.protocol.endswith("SSL") else None
        return {"tls": ends, "users": str(self._secrets / "users.json") if self.own_access.mechanism else ""}

    def servers(self, history: HistoryWriter) -> Mapping[Role, Callable[[], Target]]:
        """Return nobody: they are not ours to be killed."""
        del history
        return {}

    def groups(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return the groups that the pipeline's programs were seen to use."""
        self._groups_seen |= set(seen)
        return tuple(sorted(self._groups_seen & set(self.observer.groups())))

    def ours(self, seen: Iterable[str]) -> tuple[str, ...]:
        """Return those of them that were not there before."""
        return tuple(group for group in self.groups(seen) if group not in self._groups_before)

    def create(self, topics: Mapping[str, int]) -> None:
        """Create the pipeline's topics, replicated as the cluster does it by itself."""
        self._created |= set(topics)
        self.observer.create_topics({name: (partitions, {}) for name, partitions in topics.items()}, replicas=-1)

    def clean(self, topics: Iterable[str]) -> None:
        """Delete those topics of the pipeline that a cell before has created."""
        clean(self, set(topics) & self._created)

    def check(self) -> None:
        """Raise EnvironmentFailure where guardian or wire have died by themselves."""
        self.runtime.check()
        if self._wire is not None:
            self._wire.check()

    def close(self) -> None:
        """Delete what was created, and leave.

        Raises:
            EnvironmentFailure: something may be left.
        """
        created, self._created = self._created, set()
        try:
            if created:
                clean(self, created)
        except (KafkaError, WaitTimeoutError) as error:
            raise EnvironmentFailure(
                f"{', '.join(sorted(created))} may be left on {self.direct}: {type(error).__name__}: {error}"
            ) from error
        finally:
            self.observer.close()
            if self._wire is not None:
                self._wire.close()
            self.runtime.close()
            self._lease.close()
            shutil.rmtree(self._secrets, ignore_errors=True)
