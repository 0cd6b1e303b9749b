"""The proxies of this machine's network: how lostack goes through them, and what a JVM must be told
of them; and what a JVM's errors mean.
"""

from __future__ import annotations

import os
import re
import urllib.request
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from harness.model.proxies import proxies, proxy_for, without_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.model.proxies import Proxy

ALWAYS_DIRECT: Final = ("localhost", "127.*", "[::1]")
"""Hosts for which Java takes no proxy unless it is told otherwise."""
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
    excluded = [name for name in re.split(r"[\s,]+", without_proxy(environ)) if name]
    if "*" in excluded:
        return []
    found: list[str] = []
    for scheme, proxy in proxies(environ).items():
        found += [option for option in _options(scheme, proxy) if option not in found]
    direct = "|".join(dict.fromkeys((*ALWAYS_DIRECT, *_patterns(excluded))))
    names = ["http.nonProxyHosts"] if found else []
    names += ["socksNonProxyHosts"] if any("socksProxyHost" in each for each in found) else []
    return [*found, *(f"-D{name}={direct}" for name in names)]


def opener() -> urllib.request.OpenerDirector:
    """Return what opens addresses through the proxies that the environment names, SOCKS too. Names
    in ``NO_PROXY`` are asked themselves.
    """
    named = proxies(os.environ)
    plain = {scheme: proxy.text for scheme, proxy in named.items() if not proxy.is_socks}
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler(plain)]
    if len(plain) < len(named):
        from harness.provision.socks_proxy import SOCKS  # noqa: PLC0415 - few need it

        handlers += [SOCKS[scheme](proxy) for scheme, proxy in named.items() if proxy.is_socks]
    return urllib.request.build_opener(*handlers)


def _options(scheme: str, proxy: Proxy) -> Iterator[str]:
    """Yield the options for one scheme."""
    properties = "socksProxy" if proxy.is_socks else f"{scheme}.proxy"
    yield f"-D{properties}Host={proxy.host}"
    yield f"-D{properties}Port={proxy.port}"
    if proxy.is_socks4:
        yield "-DsocksProxyVersion=4"
    if proxy.username and not proxy.is_socks:  # Ivy reads these for both schemes, none for SOCKS
        yield f"-Dhttp.proxyUser={proxy.username}"
        yield f"-Dhttp.proxyPassword={proxy.password}"
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
    proxy = proxy_for(match["url"], os.environ)
    return f"{host}: {match['why']}{f' (asked through {proxy})' if proxy else ''}"
