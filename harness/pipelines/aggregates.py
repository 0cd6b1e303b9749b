"""Judge results that are aggregates (a count or a sum for each key): derive from a total which
records it counted, and how often.

lostack knows every record that it has offered, and the record's amount. So a total that is too low
has missed records, and one that is too high has counted some again. A sum of ``{amount}`` shows
which ones: the amounts of one key are powers of :data:`BASE`, so each digit of the total says how
often one record was counted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.pipelines.refusing import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.model.record import Record

BASE = 16
"""The base of the amounts. A total shows how often a record was counted, up to ``BASE
- 1`` times.
"""
DIGITS = 13
"""How many records a key has at most, if amounts tell them apart. Then every total is below 2**52
and fits into a double.
"""
PATTERN = r"^\W*(?P<key>\w[\w.:-]*?)[^\w-]+(?P<value>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\W*$"
"""The default pattern: a row with a key and a number, such as two columns, ``k1;12`` or ``k1 =
1.2E7``.
"""
WHOLE = Context(prec=100, traps=[Inexact, InvalidOperation])
"""Rounds only what is whole, and not too long to be a total."""


class AggregateKind(StrEnum):
    """How a result is computed from its records."""

    COUNT = "count"
    SUM = "sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """Declares that each row of the output is the count or the sum of a key's records, or of those
    in a window. The last row of a key, or of its window, is the result; if the output has no
    order, no row is the last, and rows of a key must not differ.
    """

    of: AggregateKind
    """``count`` or ``sum``."""
    pattern: str = PATTERN
    """A regular expression that finds a total in a row's text: the columns, or a message's key and
    value, joined by blanks. Its groups are ``key`` and ``value``. Without the group ``key`` there
    is one total of all records. With the group ``window`` each of a key's windows has a row, and
    each record is in one of them.
    """

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.pattern).groupindex
        except re.error as error:
            raise DeclarationError(
                f"aggregate: pattern {self.pattern!r} is not a regular expression: {error}"
            ) from error
        if "value" not in groups:
            raise DeclarationError(
                f"aggregate: {self.pattern!r} has no group value: write (?P<key>...) and "
                "(?P<value>...)"
            )

    @property
    def keyed(self) -> bool:
        """Whether there is a total for each key, instead of one total of all records."""
        return "key" in re.compile(self.pattern).groupindex

    def check(self, line: str) -> None:
        """Raise :class:`DeclarationError` if an input line lacks the value that is summed up, or
        the key of its total.
        """
        if self.of is AggregateKind.SUM and "{amount}" not in line and "{position}" not in line:
            raise DeclarationError(
                "aggregate: of = sum: put what is summed up, {amount} or {position}, into the "
                "input's line"
            )
        if self.keyed and "{key}" not in line:
            raise DeclarationError(
                "aggregate: a total for each key: put {key} into the input's line, or take "
                "(?P<key>...) out of the pattern"
            )
        if not self.keyed and "{amount}" in line:
            raise DeclarationError(
                "aggregate: {amount} needs a total for each key: put (?P<key>...) into the pattern"
            )

    def read(self, text: str) -> tuple[str, str, int] | None:
        r"""Return the key, the window and the total of a row, or ``None`` if the row has none. A
        total is a whole number, also as doubles are printed: ``17.0``, ``1.7E7``. The key of a
        total of all records is ``""``, and so is a window that rows do not have.

        >>> sums = Aggregate(of=AggregateKind.SUM)
        >>> sums.read("k1 17"), sums.read("customer total")
        (('k1', '', 17), None)
        >>> by_hour = Aggregate(
        ...     of=AggregateKind.SUM, pattern=r"(?P<key>\w+) (?P<window>\d+) (?P<value>\d+)"
        ... )
        >>> by_hour.read("k1 9 17")
        ('k1', '9', 17)
        """
        match = re.search(self.pattern, text)
        found = {} if match is None else match.groupdict(default="")
        try:
            value = Decimal(found["value"]).quantize(Decimal(1), context=WHOLE)
            return found.get("key", ""), found.get("window", ""), int(value)
        except (KeyError, ValueError, ArithmeticError):  # no row of a total, or it is not whole
            return None

    def values(self, rows: Iterable[str]) -> dict[str, int]:
        """Return the value of each key: of its last row, or of its windows' last rows together."""
        found: dict[str, int] = defaultdict(int)
        for (key, _), values in self._each(rows).items():
            found[key] += values[-1]
        return dict(found)

    def _each(self, rows: Iterable[str]) -> dict[tuple[str, str], list[int]]:
        """Return the totals of each key and window, in the order of the rows."""
        found: dict[tuple[str, str], list[int]] = defaultdict(list)
        for key, window, value in filter(None, map(self.read, rows)):
            found[key, window].append(value)
        return found


@dataclass(frozen=True, slots=True)
class Total:
    """What a key's total shows about its records.

    ``times``: how often each record was counted. ``missing`` and ``extra``: at least how many
    records were not counted, or were counted again, if the total does not show which (then
    ``times`` is 1 for each). ``alone``: a record that would explain the difference by itself.
    """

    expected: int
    found: int
    times: Mapping[str, int]
    missing: int = 0
    extra: int = 0
    alone: str | None = None


def amounts(records: Sequence[Record]) -> dict[str, int]:
    """Return the amount of each record by its id: 1, BASE, BASE**2, ... in the order of the records
    of its key.

    Raises:
        DeclarationError: a key has more than DIGITS records.
    """
    found: dict[str, int] = {}
    seen: dict[str, int] = defaultdict(int)
    for record in records:
        if seen[record.key] >= DIGITS:
            raise DeclarationError(
                f"aggregate: {record.key} has more than {DIGITS} records, so {{amount}} cannot "
                "tell them apart: offer fewer"
            )
        found[record.id] = BASE ** seen[record.key]
        seen[record.key] += 1
    return found


def spread(records: Iterable[Record]) -> dict[str, str]:
    """Return a key for each record by its id, so that no key has more than DIGITS records: the rest
    gets another key.

    >>> from harness.model.record import Record
    >>> made = spread([Record(f"a-{n}", "a", n) for n in range(1, 16)])
    >>> made["a-13"], made["a-14"]
    ('a', 'a.1')
    """
    found: dict[str, str] = {}
    seen: dict[str, int] = defaultdict(int)
    for record in records:
        lap = seen[record.key] // DIGITS
        found[record.id] = f"{record.key}.{lap}" if lap else record.key
        seen[record.key] += 1
    return found


def told_apart(total: int, weights: Mapping[str, int]) -> dict[str, int] | None:
    """Return how often each record is in a sum of amounts, or ``None`` if no counts give that sum.

    >>> told_apart(1 + 2 * 256, {"a-1": 1, "a-2": 16, "a-3": 256})
    {'a-1': 1, 'a-2': 0, 'a-3': 2}
    """
    if not 0 <= total < BASE ** len(weights):
        return None
    return {record: total // weight % BASE for record, weight in weights.items()}


def total_of(found: int, weights: Mapping[str, int], *, exact: bool) -> Total:
    """Return what the total ``found`` shows about a key's records.

    ``weights``: the amounts of the key's records, all above 0. ``exact``: they come from
    :func:`amounts`.
    """
    expected, once = sum(weights.values()), dict.fromkeys(weights, 1)
    if found == expected:
        return Total(expected, found, once)
    if exact and (times := told_apart(found, weights)) is not None:
        return Total(expected, found, times)
    off = abs(found - expected)
    alone = (
        next((record for record, weight in weights.items() if weight == off), None)
        if len({*weights.values()}) > 1
        else None
    )
    if found > expected:
        return Total(expected, found, once, extra=-(-off // max(weights.values())), alone=alone)
    return Total(expected, found, once, missing=_fewest(off, weights), alone=alone)


def _fewest(off: int, weights: Mapping[str, int]) -> int:
    """Return the least number of missing records that makes a total too low by ``off``."""
    count = 0
    for weight in sorted(weights.values(), reverse=True):
        if off <= 0:
            break
        off, count = off - weight, count + 1
    return count
