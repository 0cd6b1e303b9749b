"""A program that writes transactions into a sink until it is killed: ``python -m
tests.contract.writer OPENER WHERE COUNT``.

It prints a line behind each. After COUNT of them it stands still in the middle of another one; 0
means that it goes on for ever.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from typing import TYPE_CHECKING

from harness.stages.sinks.interface import Copy

if TYPE_CHECKING:
    from harness.stages.sinks.interface import Sink

ROWS = 3
"""Results of one transaction."""


def opened(opener: str, where: str) -> Sink:
    """Connect to a sink by the name of the function that does it."""
    module, _, function = opener.partition(":")
    found: Sink = getattr(importlib.import_module(module), function)(where)
    return found


def write(sink: Sink, number: int) -> None:
    """Write all there is of transaction ``number`` (from 1), but for its end."""
    sink.begin()
    for row in range(ROWS):
        at = Copy(0, 0, (number - 1) * ROWS + row)
        sink.absorb(f"r-{at.offset}", at)
        sink.record(f"{number}.{row}".encode(), f"key-{row}", at)
    sink.absorb_copy(f"r-{number}", Copy(0, 0, number))
    sink.save_position(0, number * ROWS)


def main(opener: str, where: str, count: int) -> None:
    """Write."""
    sink = opened(opener, where)
    for number in itertools.count(1):
        write(sink, number)
        if count and number > count:
            break
        sink.commit()
        print(number, flush=True)  # noqa: T201 - the one who will kill it reads this
    print("open", flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
