"""Opens addresses through a SOCKS proxy, which Python's own library cannot."""

from __future__ import annotations

from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING, Any, Final
from urllib.request import HTTPHandler, HTTPSHandler, proxy_bypass

import socks  # type: ignore[import-untyped]  # it has no types

if TYPE_CHECKING:
    from collections.abc import Mapping
    from http.client import HTTPResponse
    from urllib.request import Request

    from harness.model.proxies import Proxy


class _Through(HTTPConnection):
    """A connection through a proxy, which also looks up the host's name."""

    proxy: Mapping[str, Any]

    def connect(self) -> None:
        """Connect to the host through the proxy."""
        self.sock = socks.create_connection((self.host, self.port), self.timeout, **self.proxy)


class _ThroughByTls(HTTPSConnection, _Through):
    """The same, with TLS to the host inside of it."""


def _connection(
    kind: type[_Through], proxy: Mapping[str, object], host: str, **options: Any
) -> _Through:
    made = kind(host, **options)
    made.proxy = proxy
    return made


class SocksHttp(HTTPHandler):
    """Opens ``http`` through a proxy."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        self._proxy = _told(proxy)

    def http_open(self, req: Request) -> HTTPResponse:
        """Open an address; one that ``NO_PROXY`` names without the proxy."""
        if proxy_bypass(req.host):
            return super().http_open(req)
        return self.do_open(partial(_connection, _Through, self._proxy), req)


class SocksHttps(HTTPSHandler):
    """The same for ``https``."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        self._proxy = _told(proxy)

    def https_open(self, req: Request) -> HTTPResponse:
        """Open an address; one that ``NO_PROXY`` names without the proxy."""
        if proxy_bypass(req.host):
            return super().https_open(req)
        return self.do_open(partial(_connection, _ThroughByTls, self._proxy), req)


SOCKS: Final = {"http": SocksHttp, "https": SocksHttps}
"""Which handler opens addresses of a scheme."""


def _told(proxy: Proxy) -> dict[str, object]:
    """Return what PySocks is told of a proxy."""
    return {
        "proxy_type": socks.SOCKS4 if proxy.is_socks4 else socks.SOCKS5,
        "proxy_addr": proxy.host,
        "proxy_port": proxy.port,
        "proxy_username": proxy.username or None,
        "proxy_password": proxy.password or None,
    }
