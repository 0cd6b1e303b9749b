"""What each mutation replaces. Run as a program (it leaves the harness broken): names those that
replace nothing there is.
"""

from __future__ import annotations

import inspect
import sys
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from tests.mutations.registry import SEAMS, all_of

if TYPE_CHECKING:
    from collections.abc import Iterator

Place: TypeAlias = tuple[str, ...]
"""A module and a name in it; of a class, a name in that too."""


def places() -> dict[Place, object]:
    """Return what stands at each place of the harness, as far as it is imported."""
    return {
        place: value
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] == "harness"
        for place, value in _in(name, vars(module))
    }


def _in(module: str, found: dict[str, object]) -> Iterator[tuple[Place, object]]:
    for name, value in [*found.items()]:
        yield (module, name), value
        if inspect.isclass(value) and value.__module__ == module:
            yield from (((module, name, each), of) for each, of in [*vars(value).items()])


def beside_the_mark() -> Iterator[str]:
    """Apply every mutation, one on the other. Yield what of them is of no effect: nothing was
    there, or nothing has changed.
    """
    for mutation in [*chain.from_iterable(all_of(seam).values() for seam in SEAMS)]:
        before = places()
        mutation.apply()
        after = places()
        modules = {module for module, *_ in before}
        if invented := [place for place in after if place not in before and place[0] in modules]:
            yield f"{mutation.name} replaces what is not there: {'.'.join(invented[0])}"
        elif all(after[place] is value for place, value in before.items()):
            yield f"{mutation.name} replaces nothing"


if __name__ == "__main__":
    print("\n".join(beside_the_mark()), end="")  # noqa: T201
