"""Make a certificate authority for one run, and the certificates that it signs.

Their extensions are those of RFC 5280, because clients that verify strictly (Python 3.13 and later)
refuse others. The authority's key is never written to disk, so the authority cannot sign anything
else later.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cryptography.x509 import GeneralName, KeyUsage

HOSTS: Final = ("localhost", "127.0.0.1")
LASTS: Final = dt.timedelta(days=30)
_BEFORE: Final = dt.timedelta(hours=1)
"""How long before its making a certificate becomes valid, because the clocks of
containers differ.
"""
_PRIVATE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files. ``authority``: the certificate to trust. ``server``: a key, and the certificate
    that the authority signed.
    """

    authority: Path
    server: Path


def make_certificates(
    folder: Path, hosts: Sequence[str] = HOSTS, *, lasts: dt.timedelta = LASTS
) -> Certificates:
    """Make an authority and a certificate for servers with these names and addresses, in a folder
    only the owner may read.
    """
    from cryptography import x509  # noqa: PLC0415 - loads slowly, and most runs need none
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

    now = dt.datetime.now(dt.UTC)
    whose = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "lostack, one run")])
    signing, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def signed(
        key: ec.EllipticCurvePrivateKey, name: x509.Name, more: dict[x509.ExtensionType, bool]
    ) -> bytes:
        made = x509.CertificateBuilder(
            issuer_name=whose,
            subject_name=name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
        )
        made = made.not_valid_before(now - _BEFORE).not_valid_after(now + lasts)
        identifiers = {
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()): False,
            signer: False,
        }
        for extension, critical in (identifiers | more).items():
            made = made.add_extension(extension, critical=critical)
        return made.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    root = signed(
        signing,
        whose,
        {
            x509.BasicConstraints(ca=True, path_length=0): True,
            _used_for("key_cert_sign", "crl_sign"): True,
        },
    )
    leaf = signed(
        own,
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, hosts[0])]),
        {
            x509.BasicConstraints(ca=False, path_length=None): True,
            _used_for("digital_signature"): True,
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]): False,
            x509.SubjectAlternativeName([_name(host) for host in hosts]): False,
        },
    )
    key = own.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Certificates(
        private(folder / "authority.pem", root), private(folder / "server.pem", key + leaf + root)
    )


def private(file: Path, content: bytes) -> Path:
    """Write a file that only its owner may read; return its path."""
    file.touch(mode=_PRIVATE)
    file.write_bytes(content)
    return file.absolute()


def _used_for(*uses: str) -> KeyUsage:
    from cryptography import x509  # noqa: PLC0415 - as above

    every = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{each: each in uses for each in every})


def _name(host: str) -> GeneralName:
    from cryptography import x509  # noqa: PLC0415 - as above

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
