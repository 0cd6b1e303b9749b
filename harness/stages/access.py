"""A client's TLS and log-in settings, in the form that each client library takes.

They are in a file that only its owner may read, and never in a history.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Access:
    """How a client connects. ``protocol``: Kafka's security.protocol. ``authority``: a PEM file;
    empty: this machine's.
    """

    protocol: str
    authority: str = ""
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)

    @staticmethod
    def read(file: str) -> Access | None:
        """Read a file that :meth:`text` has filled; return ``None`` if ``file`` is empty: then
        clients need no log-in.
        """
        return Access(**json.loads(Path(file).read_text(encoding="utf-8"))) if file else None

    def text(self) -> str:
        """Return the text of the file that :meth:`read` reads."""
        return json.dumps(asdict(self))

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user."""
        return {self.username: self.password} if self.username else {}

    def places(self) -> dict[str, object]:
        """Return the values of the names in braces in a declaration (``{ca}``, ``{username}``,
        ...).
        """
        found = {
            "ca": Path(self.authority),
            "security_protocol": self.protocol,
            "mechanism": self.mechanism,
            "username": self.username,
            "password": self.password,
        }
        return found | (
            {"jaas": jaas(self.mechanism, self.username, self.password)} if self.mechanism else {}
        )

    def for_kafka_python(self) -> dict[str, object]:
        """Return the settings for kafka-python."""
        found: dict[str, object] = {"security_protocol": self.protocol}
        if self.protocol.endswith("SSL") and self.authority:
            found["ssl_cafile"] = self.authority
        if self.mechanism:
            found |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return found

    def for_librdkafka(self) -> dict[str, str]:
        """Return the settings for librdkafka."""
        found = {"security.protocol": self.protocol}
        if self.protocol.endswith("SSL") and self.authority:
            found["ssl.ca.location"] = self.authority
        if self.mechanism:
            found |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        return found

    def for_java(self) -> dict[str, str]:
        """Return the settings for Kafka's Java client."""
        found = {"security.protocol": self.protocol}
        if self.protocol.endswith("SSL") and self.authority:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.authority}
        if self.mechanism:
            found |= {
                "sasl.mechanism": self.mechanism,
                "sasl.jaas.config": jaas(self.mechanism, self.username, self.password),
            }
        return found


def jaas(mechanism: str, username: str, password: str) -> str:
    """Return the JAAS line with which the Java client, or a broker, logs in.

    >>> jaas("PLAIN", "ann", "pencil")
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann"
    password="pencil";'
    """
    return (
        f"{module(mechanism)} required username={_quoted(username)} password={_quoted(password)};"
    )


def module(mechanism: str) -> str:
    """Return the Java class that logs in by a SASL mechanism."""
    where, name = ("plain", "Plain") if mechanism == "PLAIN" else ("scram", "Scram")
    return f"org.apache.kafka.common.security.{where}.{name}LoginModule"


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))
