"""Certificates as companies have them: of an older kind, and with an intermediate authority."""

from __future__ import annotations

import datetime as dt
import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

if TYPE_CHECKING:
    from pathlib import Path

DAY = dt.timedelta(days=1)


def company_papers(folder: Path) -> Path:
    """Write root.pem, intermediate.pem and server.pem (key and chain, for 127.0.0.1), all without
    KeyUsage and identifiers.
    """
    keys = {
        name: ec.generate_private_key(ec.SECP256R1()) for name in ("root", "intermediate", "server")
    }

    def signed(name: str, by: str, *more: x509.ExtensionType) -> bytes:
        subject, issuer = (
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in (name, by)
        )
        now = dt.datetime.now(dt.UTC)
        made = x509.CertificateBuilder(
            issuer,
            subject,
            keys[name].public_key(),
            x509.random_serial_number(),
            now - DAY,
            now + DAY,
        )
        for each in more:
            made = made.add_extension(each, critical=False)
        return made.sign(keys[by], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority = x509.BasicConstraints(ca=True, path_length=None)
    (folder / "root.pem").write_bytes(
        signed("root", "root", x509.BasicConstraints(ca=True, path_length=1))
    )
    intermediate = signed("intermediate", "root", authority)
    (folder / "intermediate.pem").write_bytes(intermediate)
    leaf = signed(
        "server",
        "intermediate",
        x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
    )
    key = keys["server"].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(key + leaf + intermediate)
    return folder
