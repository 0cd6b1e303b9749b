"""Reads the proxies that the environment names: the one place that does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit
from urllib.request import proxy_bypass

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKS: Final = ("socks", "socks4", "socks4a", "socks5", "socks5h")
PORTS: Final = {"http": 80, "https": 443, **dict.fromkeys(SOCKS, 1080)}
"""What a proxy may speak, and the port where it does if none is named."""


@dataclass(frozen=True)
class Proxy:
    """A proxy. ``speaks``: the scheme of its address; ``text``: the address as it was written;
    ``variable``: the variable that names it.
    """

    text: str
    speaks: str
    host: str
    port: int
    username: str
    password: str
    variable: str

    def __str__(self) -> str:
        """Name the proxy, without its log-in."""
        return f"the proxy {self.host}:{self.port} ({self.variable})"

    @property
    def is_socks(self) -> bool:
        """Whether it speaks SOCKS, of any version."""
        return self.speaks in SOCKS

    @property
    def is_socks4(self) -> bool:
        """Whether it speaks version 4 of SOCKS."""
        return self.speaks.startswith("socks4")


def proxies(environ: Mapping[str, str]) -> dict[str, Proxy]:
    """Return the proxy for each scheme (``http``, ``https``) that has one.

    ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``ALL_PROXY`` are read, in capitals or not.

    Raises:
        EnvironmentFailure: a variable is not the address of a proxy.
    """
    found = {}
    for scheme in ("http", "https"):
        names = (f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY")
        variable = next((name for name in names if environ.get(name)), None)
        if variable is not None:
            found[scheme] = _parsed(variable, environ[variable])
    return found


def proxy_for(address: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy through which an address is asked; ``None``: it is asked itself.

    Raises:
        EnvironmentFailure: a variable is not the address of a proxy.
    """
    at = urlsplit(address)
    excluded = {"no": without_proxy(environ)}
    if proxy_bypass(at.hostname or "", excluded):
        return None
    return proxies(environ).get(at.scheme)


def without_proxy(environ: Mapping[str, str]) -> str:
    """Return ``NO_PROXY``: the names of hosts that are asked without a proxy."""
    return environ.get("no_proxy") or environ.get("NO_PROXY") or ""


def _parsed(variable: str, text: str) -> Proxy:
    try:
        at = urlsplit(text if "://" in text else f"http://{text}")
        host = at.hostname
    except ValueError:
        raise _wrong(variable, text, "its brackets do not match") from None
    try:
        port = at.port
    except ValueError:  # its text may hold a part of the log-in
        raise _wrong(variable, text, "its port is no number from 1 to 65535") from None
    if at.scheme not in PORTS:
        raise _wrong(variable, text, f"it speaks none of {', '.join(PORTS)}")
    if not host:
        raise _wrong(variable, text, "it has no host")
    if port == 0:
        raise _wrong(variable, text, "its port is 0")
    return Proxy(
        text,
        at.scheme,
        host,
        port or PORTS[at.scheme],
        unquote(at.username or ""),
        unquote(at.password or ""),
        variable,
    )


def _wrong(variable: str, text: str, why: str) -> EnvironmentFailure:
    """Return the failure; the log-in of the proxy is not shown."""
    shown = text.rpartition("@")[2]
    return EnvironmentFailure(
        f"{variable} is not the address of a proxy ({shown!r}: {why}): write it as "
        "http://HOST:PORT or socks5h://HOST:PORT, with the signs :/?#@ of a log-in as %XX"
    )
