"""Check what a declaration says of dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.pipelines.refusing import DeclarationError

if TYPE_CHECKING:
    from harness.pipelines.declaration import Pipeline


def check_dead_letters(pipeline: Pipeline) -> None:
    """Raise :class:`DeclarationError` if no record can rest in the topic that ``dead_letters``
    names, or if nobody could tell that one does.
    """
    topic = pipeline.dead_letters
    if not topic:
        return
    if not pipeline.dialect.logs:
        raise DeclarationError(
            f"dead_letters: names a topic of Kafka, but the pipeline runs on {pipeline.system}: "
            "leave it out"
        )
    if topic == pipeline.output.topic:
        raise DeclarationError(
            f"dead_letters: {topic} is the output, too, whose records are results: name another "
            "topic"
        )
    if topic == pipeline.topic:
        raise DeclarationError(
            f"dead_letters: {topic} is the topic that the pipeline reads: name another topic"
        )
    if pipeline.aggregate is not None:
        raise DeclarationError(
            "dead_letters: a total does not show which records are missing: take away "
            "dead_letters, or [aggregate]"
        )
