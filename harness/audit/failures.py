"""The errors that an audit raises."""

from __future__ import annotations

from typing import Final

from harness.model.failures import EnvironmentFailure

ELSEWHERE: Final = "use --engine spark"


class AuditError(EnvironmentFailure):
    """A side cannot be read, or cannot be read here; the message is one line that says which, why,
    and what to do.
    """


class OutgrownError(AuditError):
    """A side is too large for this machine."""


class NotOursToReadError(Exception):
    """Something that only the Java client can read: the audit runs again with Spark's own
    connector.
    """
