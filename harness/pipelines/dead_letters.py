"""Check what a declaration says of dead letters."""

from __future__ import annotations

from harness.pipelines.refusing import DeclarationError


def check_dead_letters(
    topic: str, *, system: str, logs: bool, reads: str, output: str, totals: bool
) -> None:
    """Raise :class:`DeclarationError` if no record can rest in the topic that ``dead_letters``
    names, or if nobody could tell that one does.

    ``reads``: the topic between producer and consumer; ``output``: the topic that is the output;
    ``logs`` and ``totals``: whether the system is a log, and the output's rows are totals.
    """
    if not topic:
        return
    if not logs:
        raise DeclarationError(
            f"dead_letters: names a topic of Kafka, but the pipeline runs on {system}: leave it out"
        )
    if topic == output:
        raise DeclarationError(
            f"dead_letters: {topic} is the output, too, whose records are results: name another "
            "topic"
        )
    if topic == reads:
        raise DeclarationError(
            f"dead_letters: {topic} is the topic that the pipeline reads: name another topic"
        )
    if totals:
        raise DeclarationError(
            "dead_letters: a total does not show which records are missing: take away "
            "dead_letters, or [aggregate]"
        )
