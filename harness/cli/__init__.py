"""The commands of the command line. They parse options, call the other packages, and print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.cli.signals import interruptible

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
"""The exit code of an interrupted command, as :class:`harness.model.exits.ExitCode` has it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Signals are heard before anything large is imported, which takes most of a second.
    """
    try:
        with interruptible():
            from harness.cli.application import main as run  # noqa: PLC0415 - see above

            return run(arguments)
    except KeyboardInterrupt:
        from harness.cli.telling import complain  # noqa: PLC0415 - see above

        complain("interrupted")
        return INTERRUPTED
