"""A type of contract for import-linter: what a part of the package may reach is listed, and all
else is not for it.

The types that import-linter has list what is forbidden, so whatever is new is allowed. Here a new
module, or a new library, is forbidden until somebody writes it down. All imports count, those under
TYPE_CHECKING too, and so does what is imported on the way: by a module that is imported, and by the
packages that it lies in, which Python imports with it.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from typing import TYPE_CHECKING, cast

from importlinter import Contract, ContractCheck, fields, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grimp import ImportGraph


class ReachContract(Contract):
    """``source_modules``, with all that lies in them, reach ``allowed_modules``,
    ``allowed_libraries`` and the standard library.

    A ``*`` in a source, or an allowed module, stands for any one name.
    Both lists hold what is needed and no more: an entry that is not reached breaks the contract,
    too.
    """

    type_name = "reach"

    source_modules = fields.ListField(subfield=fields.StringField())
    allowed_modules = fields.ListField(subfield=fields.StringField(), default=[])
    allowed_libraries = fields.ListField(subfield=fields.StringField(), default=[])

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - import-linter's signature
        """Follow the imports from the sources on, and stop at whatever is not allowed."""
        sources, modules, libraries = (
            cast("list[str]", each)
            for each in (self.source_modules, self.allowed_modules, self.allowed_libraries)
        )
        sources = [found for each in sources for found in _matching(each, graph)]
        meant = {each: _matching(each, graph) for each in modules} | {
            each: [each] for each in libraries
        }
        modules = [found for each in modules for found in meant[each]]
        missing = [each for each in (*sources, *modules) if each not in graph.modules]
        if missing:
            raise ValueError(f"there is no module {missing[0]}")
        passages = {package for each in (*sources, *modules) for package in packages_of(each)}
        came = {
            module: "" for source in sources for module in (source, *graph.find_descendants(source))
        }
        reached, found = deque(came), []
        while reached:
            module = reached.popleft()
            if module not in passages and not _allowed(
                module, graph, [*sources, *modules], libraries
            ):
                found.append(_way(module, came))
                continue
            for following in (
                *graph.find_modules_directly_imported_by(module),
                *packages_of(module),
            ):
                if following not in came:
                    came[following] = module
                    reached.append(following)
        idle = [
            each
            for each, found in meant.items()
            if not any(_within(module, one) for module in came for one in found)
        ]
        return ContractCheck(kept=not (found or idle), metadata={"found": found, "idle": idle})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each way to what is not allowed, and what is allowed for nothing."""
        for way in sorted(check.metadata["found"]):
            output.print_error(f"- {' -> '.join(way)}", bold=False)
        for each in check.metadata["idle"]:
            output.print_error(f"- {each} is allowed, and not reached", bold=False)
        output.new_line()


def packages_of(module: str) -> Iterator[str]:
    """Yield the packages that a module lies in, the innermost first.

    >>> list(packages_of("harness.wire.rules"))
    ['harness.wire', 'harness']
    """
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def _matching(pattern: str, graph: ImportGraph) -> list[str]:
    """Return the modules of a pattern; itself where there are none, so that this is told."""
    like = re.compile(re.escape(pattern).replace(r"\*", r"[^.]+"))
    return sorted(module for module in graph.modules if like.fullmatch(module)) or [pattern]


def _allowed(module: str, graph: ImportGraph, modules: list[str], libraries: list[str]) -> bool:
    if graph.is_module_squashed(module):  # a library
        return module in libraries or module in sys.stdlib_module_names
    return any(_within(module, each) for each in modules)


def _within(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def _way(module: str, came: dict[str, str]) -> tuple[str, ...]:
    """Return the imports that lead to a module, from a source on."""
    way = [module]
    while came[way[0]]:
        way.insert(0, came[way[0]])
    return tuple(way)
