"""Check what a declaration says of dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.pipelines.refusing import DeclarationError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection


QUEUES: Final = {"activemq": "DLQ.", "artemis": "DLQ."}
"""By system: what its brokers, as lostack starts them, put before the name of a queue to name the
queue of its dead letters.
"""


def check_dead_letters(
    name: str, *, system: str, topics: Collection[str], reads: str, output: str, totals: bool
) -> None:
    """Raise :class:`DeclarationError` if no record can rest where ``dead_letters`` says, or if
    nobody could tell that one does.

    ``reads``: the topic or queue between producer and consumer; ``output``: the topic that is the
    output; ``totals``: whether the output's rows are totals.
    """
    if not name:
        return
    if system in QUEUES:
        if name != (dead := QUEUES[system] + reads):
            raise DeclarationError(
                f"dead_letters: on {system} the dead letters of {reads} are in {dead}, not in "
                f"{name}: write that"
            )
    elif system != "kafka":
        raise DeclarationError(
            f"dead_letters: lostack does not know where the dead letters are on {system}: leave "
            "it out"
        )
    elif name not in topics:
        raise DeclarationError(f"dead_letters: {name} is not among topics; {nearest(name, topics)}")
    if name == output:
        raise DeclarationError(
            f"dead_letters: {name} is the output, too, whose records are results: name another "
            "topic"
        )
    if name == reads:
        raise DeclarationError(
            f"dead_letters: {name} is the topic that the pipeline reads: name another topic"
        )
    if totals:
        raise DeclarationError(
            "dead_letters: a total does not show which records are missing: take away "
            "dead_letters, or [aggregate]"
        )
