"""Help for the author of a pipeline with a red cell: how to fix a broken promise, and the last
words of programs that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import registry
from harness.judge.verdict import Kind
from harness.model import events as kinds
from harness.model.logs import last_lines, log_text
from harness.pipelines.fixes import fix_of
from harness.pipelines.practice import practice_of
from harness.report.reading import lines_of
from harness.report.summary import DECLARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.saved import CellResult


def last_line_sentences(result: CellResult) -> Iterator[str]:
    """Yield the last lines of each stage that ended by an error, unless the verdict has them
    already.
    """
    for name, lines in last_log_lines(result):
        if all(line in result.verdict.reason for line in lines):
            continue  # the verdict has these lines already
        yield f"the {name} ended by an error; it last said:"
        yield from (f"  {line}" for line in lines)


def last_log_lines(result: CellResult) -> list[tuple[str, list[str]]]:
    """Return the last lines of the log of each stage that ended by an error, as (stage, lines); no
    lines if there are none.
    """
    return [(name, last_lines(log_text(result.directory, name))) for name in result.failed]


def mending(result: CellResult) -> str | None:
    """Say how to fix a broken promise of a user's own pipeline, or return ``None`` if nothing is
    known.
    """
    if result.plan.system != DECLARED or result.verdict.kind is not Kind.BROKEN:
        return None
    seen = practice_of(lines_of(result, kinds.Frame, kinds.Sent, kinds.Unsent))
    return fix_of(result.judgement, registry.scenarios(), seen)
