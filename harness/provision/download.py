"""Download one file through the machine's proxies, and return its sha256."""

from __future__ import annotations

import hashlib
import os
import ssl
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.model.proxies import proxy_for
from harness.provision.network import opener

if TYPE_CHECKING:
    from pathlib import Path

SILENT_S: Final = 60.0
"""For how many seconds the server may be silent."""
FETCH_WITHIN_S: Final = 600.0
CHUNK: Final = 1 << 18


def download(asked: str | urllib.request.Request, file: Path) -> str:
    """Download an address into a file, and return the sha256 of what came, in hex.

    Raises:
        EnvironmentFailure: it does not come, or takes more than ten minutes. The message, one line,
            says why.
    """
    address = asked if isinstance(asked, str) else asked.full_url
    digest, ends = hashlib.sha256(), time.monotonic() + FETCH_WITHIN_S
    try:
        with opener().open(asked, timeout=SILENT_S) as answer, file.open("wb") as into:
            while chunk := answer.read(CHUNK):
                digest.update(chunk)
                into.write(chunk)
                if time.monotonic() > ends:
                    raise EnvironmentFailure(
                        f"{address} took more than {FETCH_WITHIN_S / 60:g} minutes: check the "
                        "network, and try again"
                    )
    except (
        urllib.error.URLError,
        HTTPException,
        TimeoutError,
        ConnectionError,
        ssl.SSLError,
    ) as error:
        raise EnvironmentFailure(why_not(error, address)) from error
    return digest.hexdigest()


def why_not(error: Exception, address: str) -> str:
    """Say in a clause why an address could not be fetched."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(error, urllib.error.HTTPError):
        return f"{address} answers {error.code} {error.reason}"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {address} is not trusted ({reason.verify_message}): "
            "name the file of your certificate authority by SSL_CERT_FILE"
        )
    said = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    if proxy := proxy_for(address, os.environ):
        return (
            f"{address} cannot be reached through {proxy} ({said}): check that proxy, or unset "
            f"{proxy.variable}"
        )
    return (
        f"{address} cannot be reached ({said}): check the network, or name a proxy by HTTPS_PROXY"
    )
