"""Signs that only an engine knows that is run where it is named: their tests stand with it, in
``tests/systems``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from harness import registry
from harness.plugins import load
from tests.events import a_history

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.model.history import History


def knowers() -> Mapping[str, tuple[Callable[[History], Mapping[object, object]], ...]]:
    """Return who knows signs, by engine."""
    named = {name: registry.described(name).knowledge for name in registry.engines()}
    return {name: load(where).signs for name, where in named.items() if where}


@functools.cache
def signs_of_engines() -> frozenset[str]:
    """Return all of these signs, by their names."""
    return frozenset(
        str(sign)
        for each in knowers().values()
        for know in each
        for sign in know(a_history((), ()))
    )
