"""Find what all cells of a declared pipeline would share (a fixed port, one output), so that only
one cell can run at a time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.pipelines.braces import OF_A_SERVICE, places
from harness.pipelines.inputs import InputKind
from harness.pipelines.outputs import OutputKind
from harness.pipelines.programs import ONCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.pipelines.declaration import Pipeline

OF_A_CELL = ("work", "port", "input", "bootstrap")
"""Names in braces whose value differs from cell to cell."""
ADDRESS = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):[0-9]{1,5}")
"""A fixed port of this machine, in a command or environment."""


def why_alone(pipeline: Pipeline) -> str | None:
    """Say what two cells of a pipeline would share, so that they cannot run at the same time;
    ``None`` if nothing is known.

    Only the declaration is examined. Ports and files that the programs choose by themselves show in
    a rehearsal.
    """
    return next(_shared(pipeline), None)


def _shared(pipeline: Pipeline) -> Iterator[str]:
    if pipeline.brokers > 1:
        yield f"each would have {pipeline.brokers} brokers of its own"
    for service in pipeline.services:
        if service.anew == ONCE:
            yield f'the service {service.name} is started once (anew = "once")'
        elif not any(OF_A_SERVICE.fullmatch(name) for name in _named(service.words)):
            yield (
                f"the service {service.name} is given neither {{{service.name}.port}} nor "
                f"{{{service.name}.dir}}"
            )
    if pipeline.input.kind is InputKind.HTTP and "port" not in places(pipeline.input.url):
        yield (
            f"the producer listens at a fixed port ({pipeline.input.url}): write {{port}} into "
            "url and into its command"
        )
    words = [(each.known, word) for each in pipeline.stages for word in each.words]
    words += [(each.known, word) for each in pipeline.services for word in each.words]
    for known, word in words:
        if match := ADDRESS.search(word):
            yield f"the {known} is given a fixed port ({match[0]})"
    if match := ADDRESS.search(pipeline.input.database):
        yield f"the rows of all cells are inserted at a fixed port ({match[0]})"
    output = pipeline.output
    where = (
        output.command if output.kind is OutputKind.COMMAND else tuple(filter(None, (output.file,)))
    )
    if where and not any(_is_of_a_cell(name) for name in _named(where)):
        yield (
            f"the results of all cells are in one place ({' '.join(where)}): put the output "
            f"below {{work}}"
        )


def _named(words: Iterable[str]) -> list[str]:
    return [name for word in words for name in places(word)]


def _is_of_a_cell(name: str) -> bool:
    return name in OF_A_CELL or OF_A_SERVICE.fullmatch(name) is not None
