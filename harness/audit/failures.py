"""How an audit ends that cannot go on."""

from __future__ import annotations

from typing import Final

from harness.model.failures import EnvironmentFailure

ELSEWHERE: Final = "use --engine spark"


class AuditError(EnvironmentFailure):
    """A side cannot be read, or cannot be read here: one line that says which, why, and what helps."""


class OutgrownError(AuditError):
    """A side is more than this machine holds."""


class NotOursToReadError(Exception):
    """What is not read here, and the Java client reads: the audit is run again by Spark's own connector."""
