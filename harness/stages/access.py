"""How a client is let in, in the words of each client. It stands in a file that only its owner may read, never in a history."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Access:
    """``protocol`` is Kafka's name for it (``SASL_SSL`` ...). ``authority``: a PEM file; none: those of this machine."""

    protocol: str
    authority: str = ""
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)

    @staticmethod
    def read(file: str) -> Access | None:
        """Read what :meth:`text` has written; no file: none is needed."""
        return Access(**json.loads(Path(file).read_text(encoding="utf-8"))) if file else None

    def text(self) -> str:
        """Return what belongs into the file."""
        return json.dumps(asdict(self))

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user."""
        return {self.username: self.password} if self.username else {}

    def places(self) -> dict[str, object]:
        """Return what stands for the names in braces in what a declaration says of a stage."""
        found = {
            "ca": Path(self.authority), "security_protocol": self.protocol, "mechanism": self.mechanism,
            "username": self.username, "password": self.password,
        }  # fmt: skip
        return found | ({"jaas": jaas(self.mechanism, self.username, self.password)} if self.mechanism else {})

    def for_kafka_python(self) -> dict[str, Any]:
        """Return its settings."""
        found: dict[str, Any] = {"security_protocol": self.protocol}
        if self.protocol.endswith("SSL") and self.authority:
            found["ssl_cafile"] = self.authority
        if self.mechanism:
            found |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return found

    def for_librdkafka(self) -> dict[str, Any]:
        """Return its settings."""
        found = {"security.protocol": self.protocol}
        if self.protocol.endswith("SSL") and self.authority:
            found["ssl.ca.location"] = self.authority
        if self.mechanism:
            found |= {"sasl.mechanism": self.mechanism, "sasl.username": self.username, "sasl.password": self.password}
        return found

    def for_java(self) -> dict[str, Any]:
        """Return its settings."""
        found = {"security.protocol": self.protocol}
        if self.protocol.endswith("SSL") and self.authority:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.authority}
        if self.mechanism:
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": jaas(self.mechanism, self.username, self.password)}
        return found


def jaas(mechanism: str, username: str, password: str) -> str:
    """Return the line by which the Java client, or a broker, is told who it is.

    >>> jaas("PLAIN", "ann", "pencil")
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="pencil";'
    """
    return f"{module(mechanism)} required username={_quoted(username)} password={_quoted(password)};"


def module(mechanism: str) -> str:
    """Return the class that logs in by a mechanism."""
    where, name = ("plain", "Plain") if mechanism == "PLAIN" else ("scram", "Scram")
    return f"org.apache.kafka.common.security.{where}.{name}LoginModule"


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))
