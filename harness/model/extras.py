"""The extras of lostack: the libraries that only some commands need, and what to install where one
is missing.

A package of ``harness/`` that cannot do without an extra calls :func:`require` before it imports
the library.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "spark": ("pyspark", "py4j", "pyarrow"),
    "docker": ("testcontainers", "docker"),
    "queues": ("stomp",),
    "redis": ("redis", "celery"),
    "nats": ("nats",),
    "rabbitmq": ("pika",),
    "audit": ("pyarrow",),
    "values": ("fastavro", "grpc_tools", "google.protobuf"),
}
"""Extra → the modules that it brings."""


def require(extra: str, what: str) -> None:
    """Do nothing if an extra is installed. ``what`` needs it, and is the subject of the message.

    Raises:
        EnvironmentFailure: a module of the extra is not installed.
    """
    if module := lacks(extra):
        raise EnvironmentFailure(told(what, module, extra))


def lacks(extra: str) -> str | None:
    """Return the first module of an extra that is not installed, or ``None``."""
    return next((module for module in EXTRAS[extra] if not _is_there(module)), None)


def told(what: str, module: str, extra: str) -> str:
    """Return the line that says what is missing, and how to install it.

    >>> told("Spark", "pyspark", "spark")
    "Spark needs pyspark, which is not installed: pip install 'lostack[spark]'"
    """
    return f"{what} needs {module}, which is not installed: pip install 'lostack[{extra}]'"


def why_missing(error: BaseException) -> str | None:
    """Return the line for an import that failed because its extra is not installed; ``None`` for
    every other error. Of several extras the smallest is named.

    >>> why_missing(ModuleNotFoundError(name="docker.errors"))
    "this command needs docker, which is not installed: pip install 'lostack[docker]'"
    """
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    missing = f"{error.name}."
    bring = [
        (len(modules), module, extra)
        for extra, modules in EXTRAS.items()
        for module in modules
        if missing.startswith(f"{module}.")
    ]
    if not bring:
        return None
    _, module, extra = min(bring)
    return told("this command", module, extra)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package above it
        return False
