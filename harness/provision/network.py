"""The proxies of this machine's network: how lostack goes through them, and what a JVM must be told
of them; and what a JVM's errors mean.
"""

from __future__ import annotations

import os
import re
import urllib.request
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

ALWAYS_DIRECT: Final = ("localhost", "127.*", "[::1]")
"""Hosts for which Java takes no proxy unless it is told otherwise."""
PORTS: Final = {"http": 80, "https": 443, "socks": 1080}
UNTRUSTED: Final = "unable to find valid certification path"
FAILED: Final = (
    re.compile(r"Server access error at url (?P<url>\S+) \((?:[\w.$]+: )*(?P<why>.*)\)$"),
    re.compile(r"Host \S+ (?P<why>not found)\. url=(?P<url>\S+)$"),
    re.compile(r"(?:CLIENT|SERVER) ERROR: (?P<why>.*) url=(?P<url>\S+)$"),
)
"""Lines of Ivy that say why it could not ask a server."""


def proxy_options(environ: Mapping[str, str]) -> list[str]:
    """Return the JVM's options for the proxies that the environment names.

    ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` are read, in capitals or not. A
    JVM knows none of them.
    """
    excluded = [name for name in re.split(r"[\s,]+", _value(environ, "no_proxy")) if name]
    if "*" in excluded:
        return []
    found: list[str] = []
    for scheme in ("http", "https"):
        named = _value(environ, f"{scheme}_proxy") or _value(environ, "all_proxy")
        found += [option for option in _proxy(scheme, named) if option not in found]
    direct = "|".join(dict.fromkeys((*ALWAYS_DIRECT, *_patterns(excluded))))
    names = ["http.nonProxyHosts"] if found else []
    names += ["socksNonProxyHosts"] if any("socksProxyHost" in each for each in found) else []
    return [*found, *(f"-D{name}={direct}" for name in names)]


def opener() -> urllib.request.OpenerDirector:
    """Return what opens addresses through the proxies that the environment names, SOCKS too. Names
    in ``NO_PROXY`` are asked themselves.
    """
    named = {
        scheme: _value(os.environ, f"{scheme}_proxy") or _value(os.environ, "all_proxy")
        for scheme in ("http", "https")
    }
    plain = {scheme: text for scheme, text in named.items() if text and not _is_socks(text)}
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler(plain)]
    if any(map(_is_socks, named.values())):
        from harness.provision.socks_proxy import SocksHttp, SocksHttps  # noqa: PLC0415 - few need it

        handlers += [SocksHttp(named["http"])] if _is_socks(named["http"]) else []
        handlers += [SocksHttps(named["https"])] if _is_socks(named["https"]) else []
    return urllib.request.build_opener(*handlers)


def _is_socks(named: str) -> bool:
    return named.lower().startswith("socks")


def _value(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _proxy(scheme: str, named: str) -> Iterator[str]:
    """Yield the options for one scheme. ``named``: the proxy, as an address or as host and port."""
    if not named:
        return
    proxy = urlsplit(named if "://" in named else f"//{named}")
    kind = "socks" if proxy.scheme.startswith("socks") else proxy.scheme or "http"
    properties = "socksProxy" if kind == "socks" else f"{scheme}.proxy"
    yield f"-D{properties}Host={proxy.hostname or ''}"
    yield f"-D{properties}Port={proxy.port or PORTS.get(kind, PORTS['http'])}"
    if proxy.scheme.startswith("socks4"):
        yield "-DsocksProxyVersion=4"
    if proxy.username and kind != "socks":  # Ivy reads these for both schemes, and none for SOCKS
        yield f"-Dhttp.proxyUser={unquote(proxy.username)}"
        yield f"-Dhttp.proxyPassword={unquote(proxy.password or '')}"
        yield "-Djdk.http.auth.tunneling.disabledSchemes="  # by default Java logs in to no tunnel


def _patterns(excluded: Sequence[str]) -> Iterator[str]:
    """Yield Java's patterns for the names of ``NO_PROXY``: each means its subdomains, too."""
    for name in excluded:
        host = name.removeprefix("*").removeprefix(".")
        host = host.rpartition(":")[0] if re.fullmatch(r"[^:]+:\d+", host) else host
        yield from (host, f"*.{host}") if not re.fullmatch(r"[\d.]+|.*:.*", host) else (host,)


_QUOTED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})


def argument_file(options: Sequence[str]) -> str:
    """Return the text of a file that gives options to ``java`` as ``@file``, each quoted."""
    return "".join(f'"{option.translate(_QUOTED)}"\n' for option in options)


def why_failed(line: str, java: Path) -> str | None:
    """Return why Ivy could not ask a server, if this line of its output says so."""
    match = next((found for form in FAILED if (found := form.search(line))), None)
    if match is None:
        return None
    host = urlsplit(match["url"]).netloc
    if UNTRUSTED in match["why"]:
        return (
            f"Java ({java}) does not trust the certificate of {host} ({UNTRUSTED}): add its "
            "authority to Java's trust store (keytool -importcert -cacerts), or name another store "
            "by JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=FILE"
        )
    return f"{host}: {match['why']}"
