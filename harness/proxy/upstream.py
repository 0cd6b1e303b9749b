"""Where a proxy leads, and how: the address of a broker, TLS, and the addresses for each role."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure, UsageError
from harness.provision.certificates import make_certificates, private
from harness.provision.probing import probe
from harness.proxy.spoken import KAFKA, spoken
from harness.wire.messages import Route, Tls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.proxy.spoken import ProxiedProtocol

ROUTE: Final = "kafka"
CLIENT: Final = "client"
"""The role of programs that use :attr:`Proxy.bootstrap`, which is everybody's."""
PORTS: Final = 1 << 16
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*://")
_ROLE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def host_and_port(text: str) -> tuple[str, int]:
    """Parse ``HOST:PORT``, also behind a scheme as Kafka's listeners have it.

    >>> host_and_port("PLAINTEXT://localhost:9092"), host_and_port("[::1]:9092")
    (('localhost', 9092), ('::1', 9092))

    Raises:
        UsageError: it is none, or a list.
    """
    if "," in str(text):
        raise UsageError(f"{text!r} is a list: name one address, its answers name the others")
    host, _, port = _SCHEME.sub("", str(text)).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < PORTS:
        raise UsageError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def known_port(number: int) -> int:
    """Return a port (0: any).

    Raises:
        UsageError: there is no such port.
    """
    if not 0 <= number < PORTS:
        raise UsageError(f"there is no port {number}: ports are 1 to 65535")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """What a proxy is told of a Kafka, as :class:`~harness.proxy.proxy.Proxy` takes it."""

    upstream: str
    located: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    protocol: str = KAFKA
    roles: Mapping[str, int] = field(default_factory=dict)
    security_protocol: str = PROTOCOLS[0]
    ca: Path | str | None = None
    ca_out: Path | str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for each in (self.upstream, *self.located, *self.located.values()):
            host_and_port(each)
        if not self.spoken.follows:
            self._check_other()
        for port in (self.port, *self.roles.values()):
            known_port(port)
        if self.security_protocol not in PROTOCOLS:
            raise UsageError(
                f"there is no security protocol {self.security_protocol!r}: there are "
                f"{', '.join(PROTOCOLS)}"
            )
        if not self.tls and (self.ca or self.ca_out):
            raise UsageError(
                f"a certificate authority belongs to SSL and SASL_SSL: leave it out of "
                f"{self.security_protocol}"
            )
        if (self.username is None) != (self.password is None):
            raise UsageError("username and password belong together: give both or neither")
        if self.username is not None and not self.security_protocol.startswith("SASL"):
            raise UsageError(f"{self.security_protocol} has no log-in: leave out username")
        for role in self.roles:
            if role == CLIENT or not _ROLE.fullmatch(role):
                raise UsageError(
                    f"{role!r} is no role: take letters, digits, - and _, and not {CLIENT!r}"
                )

    def _check_other(self) -> None:
        if self.located:
            raise UsageError(
                f"no answer of {self.protocol} names another server: leave located out (--map)"
            )
        if self.security_protocol != PROTOCOLS[0]:
            raise UsageError(
                f"security_protocol belongs to {KAFKA}: leave it out of {self.protocol}"
            )

    @property
    def spoken(self) -> ProxiedProtocol:
        """What is spoken.

        Raises:
            UsageError: a proxy cannot stand in it.
        """
        return spoken(self.protocol)

    @property
    def tls(self) -> bool:
        """Whether the brokers speak TLS; then the proxy does so on both sides."""
        return self.security_protocol.endswith("SSL")

    def check(self) -> None:
        """Ask the broker for its certificate, if it is up.

        Raises:
            EnvironmentFailure: it is not trusted, or wants a certificate of the client.
        """
        if self.tls:
            # the broker may start later; connections that reach none are counted
            with suppress(OSError):
                probe(*host_and_port(self.upstream), str(self.ca or ""), "ca")

    def routes(self, papers: ProxyFiles) -> Iterator[Route]:
        """Yield the wire's routes: everybody's, and one for each role."""
        host, port = host_and_port(self.upstream)
        located = {
            "{}:{}".format(*host_and_port(named)): "{}:{}".format(*host_and_port(there))
            for named, there in self.located.items()
        }
        for role, listen in {CLIENT: self.port, **self.roles}.items():
            yield Route(
                ROUTE if role == CLIENT else f"{ROUTE}-{role}",
                "bootstrap",
                role,
                listen,
                port,
                upstream_host=host,
                protocol=self.spoken.name,
                follows=self.spoken.follows,
                located=located,
                tls=papers.tls(host),
                users=papers.users,
            )


class ProxyFiles:
    """The files of a proxy: its certificate authority, and what the wire reads when a route is
    made. The latter are secret; :meth:`forget` deletes them.
    """

    def __init__(self, upstream: Upstream, folder: Path) -> None:
        self._folder = folder / "secrets"
        self._trusted = self._server = self.users = ""
        self.authority: Path | None = None
        """The PEM file by which programs trust the proxy; none without TLS."""
        try:
            if upstream.tls:
                self._make(upstream, folder)
            if upstream.username is not None:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                users = json.dumps({upstream.username: upstream.password}).encode()
                self.users = str(private(self._folder / "users.json", users))
        except BaseException:
            self.forget()
            raise

    def _make(self, upstream: Upstream, folder: Path) -> None:
        made = make_certificates(self._folder)
        self._server = str(made.server)
        self.authority = folder / "ca.pem"
        shutil.copyfile(made.authority, self.authority)
        if upstream.ca is not None:
            self._trusted = str(self._folder / "trusted.pem")
            self._copy(Path(upstream.ca), Path(self._trusted), f"cannot read {upstream.ca}")
        if upstream.ca_out is not None:
            out = Path(upstream.ca_out).absolute()
            self._copy(self.authority, out, f"cannot write {upstream.ca_out}")
            self.authority = out

    @staticmethod
    def _copy(source: Path, target: Path, unable: str) -> None:
        try:
            shutil.copyfile(source, target)
        except OSError as error:
            raise EnvironmentFailure(f"{unable}: {error.strerror}") from error

    def tls(self, host: str) -> Tls | None:
        """Return how the wire ends TLS in front of a host; ``None`` without TLS."""
        return Tls(self._server, self._trusted, host) if self._server else None

    def forget(self) -> None:
        """Delete what is secret."""
        shutil.rmtree(self._folder, ignore_errors=True)
