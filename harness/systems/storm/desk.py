"""Orders to the desk, the Java process that submits and ends topologies: see ``jvm/Desk.java``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from harness.run.control_port import ControlPort

ANSWER_S: Final = 60.0


class DeskError(Exception):
    """The desk did not answer, or answered with an error; the message is one line."""


def ask(desk: ControlPort, *words: str) -> list[dict[str, Any]]:
    """Send an order to the desk, and return the lines of its answer.

    Raises:
        DeskError: the desk answers with an error, or does not answer.
    """
    try:
        return desk.ask(*words)
    except OSError as error:
        raise DeskError(f"{words[0]}: {error}") from error
