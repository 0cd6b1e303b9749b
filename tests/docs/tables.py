"""Tables of what was measured: a line for each scenario, a column for each semantic (and pipeline,
where there are several).

A table is asked for on its page::

    <!-- table SYSTEM/CLIENT/PIPELINE[,PIPELINE...]/GROUP
    LINE/COLUMN, LINE: a note on this cell, and on this line.
      It goes on here.
    -->
    <!-- /table SYSTEM/CLIENT/PIPELINE[,PIPELINE...]/GROUP -->

Notes are optional. What a note is about may be a glob. Where there are several pipelines a column
is ``PIPELINE SEMANTIC``. With ``/last-word`` behind the group the columns are the last words of the
scenarios' names, which have one semantic each.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from harness import registry
from harness.matrix.points import symbol
from harness.model.scenario import NotApplicable, Predicted
from harness.model.semantics import Semantic
from harness.report.summary import SIGNS, Outcome
from tests.docs.markdown import cell, columns
from tests.docs.measured import as_predicted, measured, proves_nothing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.model.scenario import Expectation, Scenario
    from tests.docs.measured import Measurement

BY_HAND: Final = "Written by hand: the counts of its run are not committed."
"""What must stand in a table that waits for its run."""
ENOUGH: Final = 0.5
"""The share of a table's cells that must have counts before it is generated."""
IN_LINE: Final = 3
"""So many notes stand in one paragraph; more are a list."""
BESIDE: Final = {"left": "left", "set_aside": "set aside", "stalled": "stalled"}
"""What a cell shows beside lost and duplicated records, where there is any; older counts do not
have all of it.
"""
_RAISED: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_NOTE: Final = re.compile(r"^(\S.*?): (.*)$")


class WrongNoteError(Exception):
    """A note of a table is about nothing, or has no text."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One cell of a table: what theory says, and what was measured, by seed."""

    theory: Expectation
    told: Mapping[int, Measurement]
    right: Mapping[int, bool]
    """Whether seeds came out as predicted, known where counts are not."""

    @property
    def runs(self) -> bool:
        """Whether there is something to run."""
        return not isinstance(self.theory, NotApplicable)

    @property
    def counted(self) -> bool:
        """Whether it can be run, and there are counts of it."""
        return bool(self.told) and isinstance(self.theory, Predicted)

    def text(self) -> str:
        """Return what it shows."""
        if isinstance(self.theory, NotApplicable):
            return "n/a"
        if not isinstance(self.theory, Predicted):
            return "refused by the client"
        if not self.told:
            return (
                f"*{'as ' if self.right and all(self.right.values()) else ''}predicted "
                f"{symbol(self.theory)}*"
            )
        proved = [each for each in self.told.values() if not proves_nothing(each)] or [
            *self.told.values()
        ]
        counted = [each for each in proved if each["offered"]]
        counts = (
            f"{_span(counted, 'lost')} / {_span(counted, 'duplicated')}" if counted else "? / ?"
        )
        return f"{counts}{''.join(_beside(counted))} {self._outcomes()}"

    def _outcomes(self) -> str:
        """Return how its seeds came out: the most frequent first, of the others at which seeds."""
        seeds: dict[str, list[int]] = {}
        for seed, each in sorted(self.told.items()):
            seeds.setdefault(each["outcome"], []).append(seed)
        first, *others = sorted(seeds, key=lambda kind: -len(seeds[kind]))
        shown = [f"{SIGNS[Outcome(first)]} {first}"]
        return ", ".join(
            shown + [f"{SIGNS[Outcome(kind)]} {kind} at {ranges(seeds[kind])}" for kind in others]
        )


@dataclass(slots=True)
class Notes:
    """The notes of a table, numbered in the order in which they come up."""

    given: tuple[tuple[tuple[str, ...], str], ...]
    numbers: dict[str, int] = field(default_factory=dict)
    matched: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, text: str) -> Notes:
        """Read those that a mark has.

        Raises:
            WrongNoteError: a line says neither what it is about, nor goes on with the one before.
        """
        found: list[tuple[tuple[str, ...], str]] = []
        for line in text.splitlines():
            match = _NOTE.match(line)
            if match:
                found.append((tuple(match[1].split(", ")), match[2]))
            elif found and line.startswith(" "):
                found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
            elif line.strip():
                message = (
                    f"{line!r}: a note is `SCENARIO/SEMANTIC: text`; a line that goes on with it "
                    "is indented"
                )
                raise WrongNoteError(message)
        return cls(tuple(found))

    def of(self, name: str) -> Iterator[int]:
        """Yield the numbers of the notes on a line, or on a cell (``LINE/COLUMN``) that exists."""
        for patterns, text in self.given:
            meant = {pattern for pattern in patterns if _means(pattern, name)}
            self.matched |= meant
            if meant:
                yield self.number(text)

    def number(self, text: str) -> int:
        """Return a note's number."""
        return self.numbers.setdefault(text, len(self.numbers) + 1)

    def told(self) -> str:
        """Return all that came up.

        Raises:
            WrongNoteError: one is about nothing that the table has.
        """
        gone = {pattern for patterns, _ in self.given for pattern in patterns} - self.matched
        if gone:
            message = f"no cell of the table is meant by the notes on {', '.join(sorted(gone))}"
            raise WrongNoteError(message)
        shown = [f"{_raised(number)} {text.rstrip('.')}." for text, number in self.numbers.items()]
        return (
            " ".join(shown) if len(shown) <= IN_LINE else "\n".join(f"- {each}" for each in shown)
        )


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of one pipeline, or of several, by one client, in one group of scenarios."""

    system: str
    client: str
    pipelines: str
    group: str
    layout: str = "semantics"

    def scenarios(self) -> list[Scenario]:
        """Return its scenarios, in the order of their declaration."""
        return [
            each
            for each in registry.scenarios()
            if (each.pipeline.system, each.group) == (self.system, self.group)
            and str(each.pipeline) in self.pipelines.split(",")
        ]

    def lines(self) -> dict[str, dict[str, Spot]]:
        """Return its cells by line and column."""
        found: dict[str, dict[str, Spot]] = {}
        for each in self.scenarios():
            for semantic in Semantic:
                name = f"{self.system}/{self.client}/{each.pipeline}/{each.id}/{semantic}"
                line, column = self._place(each, semantic)
                if semantic in each.expect:
                    theory = each.expectation(semantic, self.client, self.system)
                    spot = Spot(theory, measured().get(name, {}), as_predicted().get(name, {}))
                    found.setdefault(line, {})[column] = spot
        return {
            name: line for name, line in found.items() if any(spot.runs for spot in line.values())
        }

    def _place(self, scenario: Scenario, semantic: Semantic) -> tuple[str, str]:
        if self.layout == "last-word":
            line, _, column = scenario.id.rpartition("+")
            return line, column
        return scenario.id, f"{scenario.pipeline} {semantic}" if "," in self.pipelines else str(
            semantic
        )

    def columns(self) -> list[str]:
        """Return its columns in which there is something to run."""
        lines = self.lines().values()
        if self.layout == "last-word":
            return list(dict.fromkeys(column for line in lines for column in line))
        places = [(name, semantic) for name in self.pipelines.split(",") for semantic in Semantic]
        every = [
            f"{name} {semantic}" if "," in self.pipelines else str(semantic)
            for name, semantic in places
        ]
        return [
            column
            for column in every
            if any(column in line and line[column].runs for line in lines)
        ]

    def counted(self) -> tuple[int, int]:
        """Return how many of its cells have counts, and how many there are to run."""
        spots = [
            spot
            for line in self.lines().values()
            for spot in line.values()
            if isinstance(spot.theory, Predicted)
        ]
        return sum(spot.counted for spot in spots), len(spots)

    def waits(self) -> bool:
        """Whether too few of its cells have counts: what stands there by hand says more."""
        counted, cells = self.counted()
        return counted < cells * ENOUGH

    def text(self, notes: str = "") -> str:
        """Return the table, what its marks mean, and which runs it is of."""
        known = Notes.read(notes)
        shown = self.columns()
        out = columns("scenario", *shown)
        for name, line in self.lines().items():
            row = [_noted(name, known.of(name))]
            row += [
                _said(line[column], known, f"{name}/{column}") if column in line else ""
                for column in shown
            ]
            out.append(f"| {' | '.join(row)} |")
        told = known.told()
        return "\n".join([*out, "", *([told, ""] if told else []), self._runs("\n".join(out))])

    def _runs(self, shown: str) -> str:
        spots = [spot for line in self.lines().values() for spot in line.values() if spot.counted]
        days = sorted({told["day"] for spot in spots for told in spot.told.values()})
        words = (
            [f"Lost / duplicated. Measured {_when(days)}: {_seeds(spots)}."]
            if spots
            else ["Nothing of this was run yet."]
        )
        if re.search(r"\d to \d", shown):
            words.append("*to*: it differs between seeds.")
        if "*as predicted" in shown:
            words.append("*As predicted*: it was run, and came out so; its counts were not kept.")
        if "*predicted" in shown:
            words.append("*Predicted* (L lost, D duplicated): in no committed run.")
        return " ".join(words)


def _means(pattern: str, name: str) -> bool:
    """Whether a note's pattern means a line or a cell; a star goes past no slash.

    >>> cell = "none+gaps/exactly-once"
    >>> _means("none*", "none+gaps"), _means("none*", cell), _means("none*/ex*", cell)
    (True, False, True)
    """
    return name.count("/") == pattern.count("/") and fnmatchcase(name, pattern)


def _said(spot: Spot, notes: Notes, name: str) -> str:
    numbers = (
        list(notes.of(name))
        if not isinstance(spot.theory, NotApplicable)
        else [notes.number(cell(spot.theory.because))]
    )
    return _noted(spot.text(), numbers)


def _noted(text: str, numbers: Iterable[int]) -> str:
    return " ".join((text, *map(_raised, numbers))) if text else text


def _when(days: list[str]) -> str:
    return f"on {days[0]}" if len(days) == 1 else f"from {days[0]} to {days[-1]}"


def _seeds(spots: list[Spot]) -> str:
    """Return at which seeds cells were run; where not all were run at the same, how
    many at which.
    """
    found = Counter(tuple(sorted(spot.told)) for spot in spots)
    shown = sorted(found, key=lambda seeds: -found[seeds])
    return "; ".join(
        f"{found[each]} {'cells' if found[each] > 1 else 'cell'} at {ranges(each)}"
        for each in shown
    )


def ranges(seeds: Iterable[int]) -> str:
    """Return seeds in words.

    >>> ranges([1]), ranges([1, 2]), ranges([1, 2, 3, 5])
    ('seed 1', 'seeds 1 and 2', 'seeds 1 to 3 and 5')
    """
    runs: list[list[int]] = []
    for seed in seeds:
        if runs and runs[-1][-1] == seed - 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    words = [
        word
        for run in runs
        for word in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))
    ]
    *most, last = words
    return f"seed{'s' if sum(map(len, runs)) > 1 else ''} " + (
        f"{', '.join(most)} and {last}" if most else last
    )


def _span(told: Iterable[Measurement], count: str) -> str:
    values = {each[count] for each in told}
    return str(min(values)) if len(values) == 1 else f"{min(values)} to {max(values)}"


def _beside(told: Sequence[Measurement]) -> Iterator[str]:
    for count, word in BESIDE.items():
        known = [each for each in told if count in each]
        if any(each[count] for each in known):
            yield f", {_span(known, count)} {word}"


def _raised(number: int) -> str:
    return str(number).translate(_RAISED)
