"""Check what a declaration says of dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.pipelines.refusing import DeclarationError, nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from harness.pipelines.dialects import Dialect


def check_dead_letters(
    name: str,
    *,
    system: str,
    dialect: Dialect,
    topics: Collection[str],
    reads: Sequence[str],
    output: str,
    totals: bool,
) -> None:
    """Raise :class:`DeclarationError` if no record can rest where ``dead_letters`` says, or if
    nobody could tell that one does.

    ``reads``: the topics, or the queue, between producer and consumer; ``output``: the topic that
    is the output; ``totals``: whether the output's rows are totals.
    """
    if not name:
        return
    before = dialect.dead_letters
    if dialect.logs:
        if name not in topics:
            raise DeclarationError(
                f"dead_letters: {name} is not among topics; {nearest(name, topics)}"
            )
    elif before is None:
        raise DeclarationError(
            f"dead_letters: lostack does not know where the dead letters are on {system}: leave "
            "it out"
        )
    elif before and name != before + reads[0]:
        raise DeclarationError(
            f"dead_letters: on {system} the dead letters of {reads[0]} are in {before}{reads[0]}, "
            f"not in {name}: write that"
        )
    if name == output:
        raise DeclarationError(
            f"dead_letters: {name} is the output, too, whose records are results: name another "
            "topic"
        )
    if name in reads:
        raise DeclarationError(
            f"dead_letters: {name} is the topic that the pipeline reads: name another topic"
        )
    if totals:
        raise DeclarationError(
            "dead_letters: a total does not show which records are missing: take away "
            "dead_letters, or [aggregate]"
        )
