"""Standard output and standard error while a command runs: what is done where nothing can be
written to them any more.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from harness.model.failures import EnvironmentFailure

if TYPE_CHECKING:
    from collections.abc import Iterator


class OutputError(EnvironmentFailure):
    """Standard output cannot be written to."""


class ReaderGoneError(Exception):
    """Whoever read standard output has closed it.

    It is no BrokenPipeError: rich would end the process for that with 1, which means a broken
    promise.
    """


class _Output:
    """Standard output, whose errors have a name."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.broken = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text.

        Raises:
            OutputError: it cannot be written.
            ReaderGoneError: nobody reads any more.
        """
        with self._named():
            return self._stream.write(text)

    def flush(self) -> None:
        """Write what is buffered. Raises as :meth:`write`."""
        with self._named():
            self._stream.flush()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError as error:
            self.broken = True
            raise ReaderGoneError from error
        except OSError as error:
            self.broken = True
            raise OutputError(f"cannot write to standard output: {error.strerror}") from error


class _Errors:
    """Standard error. What cannot be written to it is lost: there is no place left to say so."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.broken = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text if that is possible."""
        try:
            return self._stream.write(text)
        except OSError:
            self.broken = True
            return len(text)

    def flush(self) -> None:
        """Write what is buffered if that is possible."""
        try:
            self._stream.flush()
        except OSError:
            self.broken = True


@contextmanager
def guarded() -> Iterator[None]:
    """Put guards in front of the standard streams. A stream that is broken at the end is replaced
    by none.

    The interpreter flushes both once more when it ends, and would end with a code of its own if
    that failed.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a terminal that has no ✔ is no reason to fail
    before = sys.stdout, sys.stderr
    output = _Output(before[0]) if before[0] is not None else None
    errors = _Errors(before[1]) if before[1] is not None else None
    sys.stdout, sys.stderr = cast("TextIO", output), cast("TextIO", errors)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        if output is not None and output.broken:
            sys.stdout = _nowhere()
        if errors is not None and errors.broken:
            sys.stderr = _nowhere()


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - open until the interpreter ends
