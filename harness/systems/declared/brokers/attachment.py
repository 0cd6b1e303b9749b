"""A running Kafka cluster to attach to: what lostack may do there, and where the wire leads to."""

from __future__ import annotations

import contextlib
import itertools
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnknownBrokerIdError,
    UnsupportedSaslMechanismError,
)

from harness.model.failures import EnvironmentFailure, UsageError
from harness.model.waiting import WaitTimeoutError, wait_until
from harness.pipelines.broker import Broker
from harness.pipelines.refusing import DeclarationError
from harness.provision.probing import probe
from harness.stages.access import Access
from harness.systems.declared.brokers.listeners import Listener, is_loopback, listeners_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.security import DeclaredSecurity

BOOTSTRAP: Final = "bootstrap"
"""How the names of routes to the given addresses begin: nobody knows which brokers are there."""
REFUSALS: Final = (
    AuthorizationError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
ANSWER_MS = 10_000
"""How long the brokers may take to answer, in milliseconds."""


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
            EnvironmentFailure: the brokers do not answer, or refuse the log-in or a right.
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
        except REFUSALS as error:
            raise EnvironmentFailure(
                f"the cluster at {self.bootstrap} refuses lostack: correct the log-in under "
                f"[security], or give its user the right ({type(error).__name__}: {error})"
            ) from error
        except (KafkaError, OSError, WaitTimeoutError) as error:
            # kafka-python says of a wrong password only that it could not bootstrap
            log_in = self.access is not None and self.access.mechanism
            also = ", and the log-in under [security]" if log_in else ""
            raise EnvironmentFailure(
                f"the cluster at {self.bootstrap} does not answer: check the address and that it "
                f"runs{also} ({type(error).__name__}: {error})"
            ) from error

    @staticmethod
    def _probe(at: str, authority: str) -> None:
        try:
            probe(*_at(at), authority, "security: ca")
        except OSError as error:
            raise EnvironmentFailure(
                f"the cluster at {at} does not answer: check the address and that it runs "
                f"({type(error).__name__}: {error})"
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
                if self.pipeline.brokers > len(brokers):
                    raise EnvironmentFailure(
                        f"brokers = {self.pipeline.brokers}, and {self.bootstrap} has "
                        f"{len(brokers)}: each topic would have as many copies; take brokers away"
                    )
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
        names = (BOOTSTRAP,) if len(asked) == 1 else itertools.count(1)
        entrances = tuple(
            Listener(name if isinstance(name, str) else f"{BOOTSTRAP}-{name}", role, *at, 0)
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
