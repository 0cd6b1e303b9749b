"""The certificates of a run: whoever verifies them most strictly takes them."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from harness.provision.certificates import make_certificates
from tests.wire.tls import meet, serving, trusting

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_who_verifies_strictly_trusts_them(tmp_path: Path, name: str) -> None:
    """Python 3.13 and later do so by default: an authority must say that it may sign, and who
    signed must be named by its key.
    """
    made = make_certificates(tmp_path)
    client = trusting(made)
    assert client.verify_flags & ssl.VERIFY_X509_STRICT
    meet(client, serving(made), name)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        meet(client, serving(made), "kafka.example")
