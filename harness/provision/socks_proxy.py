"""Opens addresses through a SOCKS proxy, which Python's own library cannot."""

from __future__ import annotations

from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, proxy_bypass

import socks  # type: ignore[import-untyped]  # it has no types

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.client import HTTPResponse
    from urllib.request import Request

PORT: Final = 1080


class _Through(HTTPConnection):
    """A connection through a proxy, which also looks up the host's name."""

    proxy: Mapping[str, Any]

    def connect(self) -> None:
        """Connect to the host through the proxy."""
        self.sock = socks.create_connection((self.host, self.port), self.timeout, **self.proxy)


class _ThroughByTls(HTTPSConnection, _Through):
    """The same, with TLS to the host inside of it."""


def _connection(
    kind: type[_Through], proxy: Mapping[str, Any], host: str, **options: Any
) -> _Through:
    made = kind(host, **options)
    made.proxy = proxy
    return made


class SocksHttp(HTTPHandler):
    """Opens ``http`` through the proxy at an address, such as ``socks5://me:secret@host:1080``."""

    def __init__(self, named: str) -> None:
        super().__init__()
        self._proxy = _proxy(named)

    def http_open(self, req: Request) -> HTTPResponse:
        """Open an address; one that ``NO_PROXY`` names without the proxy."""
        if proxy_bypass(req.host):
            return super().http_open(req)
        return self.do_open(partial(_connection, _Through, self._proxy), req)


class SocksHttps(HTTPSHandler):
    """The same for ``https``."""

    def __init__(self, named: str) -> None:
        super().__init__()
        self._proxy = _proxy(named)

    def https_open(self, req: Request) -> HTTPResponse:
        """Open an address; one that ``NO_PROXY`` names without the proxy."""
        if proxy_bypass(req.host):
            return super().https_open(req)
        return self.do_open(partial(_connection, _ThroughByTls, self._proxy), req)


def _proxy(named: str) -> dict[str, Any]:
    """Return what PySocks is told of a proxy."""
    at = urlsplit(named)
    return {
        "proxy_type": socks.SOCKS4 if at.scheme.lower().startswith("socks4") else socks.SOCKS5,
        "proxy_addr": at.hostname,
        "proxy_port": at.port or PORT,
        "proxy_username": unquote(at.username) if at.username else None,
        "proxy_password": unquote(at.password) if at.password else None,
    }
