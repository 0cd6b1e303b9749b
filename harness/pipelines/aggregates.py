"""Results that are aggregates: a count or a sum for each key, and what a total says of the records that it was made of.

lostack knows every record that it has offered, and its amount; so a total that is too low has missed records, and one that is too
high has counted some again. Which ones these are follows from a sum of ``{amount}``: the amounts of one key are powers of
:data:`BASE`, and a total is a number whose digits say how often each record was counted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from harness.pipelines.refusing import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.model.record import Record

BASE = 16
"""One more than how often a record may be counted for a total to say so."""
DIGITS = 13
"""How many records a key has, where their amounts tell them apart: every total is below 2**52, which a double still holds."""
PATTERN = r"^\W*(?P<key>\w[\w.:-]*?)[^\w-]+(?P<value>-?\d+)(?:\.0+)?\W*$"
"""A row with a key and a whole number: two columns, ``k1;12``, ``k1 = 12``."""


class Of(StrEnum):
    """What a result is made of its records."""

    COUNT = "count"
    SUM = "sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """What each row of the output is: the count or the sum of the records of a key. The last row of a key counts."""

    of: Of
    """``count`` or ``sum``."""
    pattern: str = PATTERN
    """A regular expression that finds a total in a row as text (its columns, joined by blanks; of a topic key and value). Its
    groups are ``key`` and ``value``. Without ``key`` there is one total of all records."""

    def __post_init__(self) -> None:
        try:
            groups = re.compile(self.pattern).groupindex
        except re.error as error:
            raise DeclarationError(f"aggregate: pattern {self.pattern!r} is no regular expression: {error}") from error
        if "value" not in groups:
            raise DeclarationError(f"aggregate: {self.pattern!r} has no group value: write (?P<key>...) and (?P<value>...)")

    @property
    def keyed(self) -> bool:
        """Whether there is a total for each key, and not one of all."""
        return "key" in re.compile(self.pattern).groupindex

    def check(self, line: str) -> None:
        """Raise :class:`DeclarationError` where an input line does not offer what the totals are made of."""
        if self.of is Of.SUM and "{amount}" not in line and "{position}" not in line:
            raise DeclarationError("aggregate: of = sum: let the input's line hold {amount}, or {position}, as what is summed up")
        if self.keyed and "{key}" not in line:
            raise DeclarationError(
                "aggregate: a total for each key: let the input's line hold {key}, or the pattern no (?P<key>...)"
            )
        if not self.keyed and "{amount}" in line:
            raise DeclarationError("aggregate: {amount} tells the records of a key apart: let the pattern hold (?P<key>...)")

    def read(self, text: str) -> tuple[str, int] | None:
        """Return the key (of one total of all: an empty text) and the value of a row, or ``None`` where it is none.

        >>> Aggregate(of=Of.SUM).read("k1 17"), Aggregate(of=Of.SUM).read("customer total")
        (('k1', 17), None)
        """
        match = re.search(self.pattern, text)
        if match is None:
            return None
        try:
            return (match["key"] if self.keyed else ""), int(match["value"])
        except (TypeError, ValueError):  # the group took no part, or is no whole number
            return None


@dataclass(frozen=True, slots=True)
class Total:
    """What a total of one key says of its records.

    ``times``: how often each was counted; ``missing`` and ``extra``: how many, at least, were not, or were again, where it cannot
    be told which (``times`` has them once then). ``alone``: a record that would explain it by itself.
    """

    expected: int
    found: int
    times: Mapping[str, int]
    missing: int = 0
    extra: int = 0
    alone: str | None = None


def amounts(records: Sequence[Record]) -> dict[str, int]:
    """Return the amount of each record by its id: the powers of BASE, in the order of its key.

    Raises:
        DeclarationError: a key has more than DIGITS records.
    """
    found: dict[str, int] = {}
    seen: dict[str, int] = defaultdict(int)
    for record in records:
        if seen[record.key] >= DIGITS:
            raise DeclarationError(f"aggregate: {record.key} has more than {DIGITS} records, which no {{amount}} tells apart")
        found[record.id] = BASE ** seen[record.key]
        seen[record.key] += 1
    return found


def spread(records: Iterable[Record]) -> dict[str, str]:
    """Return the key of each record by its id, such that none has more than DIGITS records: of more, the rest gets another.

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
    """Return how often each record is in a sum of amounts, or ``None`` where no such counts make it.

    >>> told_apart(1 + 2 * 256, {"a-1": 1, "a-2": 16, "a-3": 256})
    {'a-1': 1, 'a-2': 0, 'a-3': 2}
    """
    if not 0 <= total < BASE ** len(weights):
        return None
    return {record: total // weight % BASE for record, weight in weights.items()}


def total_of(found: int, weights: Mapping[str, int], *, exact: bool) -> Total:
    """Return what a total says.

    ``weights``: the amounts of the key's records, all above 0; ``exact``: they are those of :func:`amounts`.
    """
    expected, once = sum(weights.values()), dict.fromkeys(weights, 1)
    if found == expected:
        return Total(expected, found, once)
    if exact and (times := told_apart(found, weights)) is not None:
        return Total(expected, found, times)
    off = abs(found - expected)
    alone = next((record for record, weight in weights.items() if weight == off), None) if len({*weights.values()}) > 1 else None
    if found > expected:
        return Total(expected, found, once, extra=-(-off // max(weights.values())), alone=alone)
    return Total(expected, found, once, missing=_fewest(off, weights), alone=alone)


def _fewest(off: int, weights: Mapping[str, int]) -> int:
    """Return how many records must be missing, at the least, for a total to be too low by so much."""
    count = 0
    for weight in sorted(weights.values(), reverse=True):
        if off <= 0:
            break
        off, count = off - weight, count + 1
    return count
