"""Ids in JSON, read at once or one by one: the same; and what Java may read differently is left to
it.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from harness.audit.failures import NotOursToReadError
from harness.audit.json_ids import json_reader

if TYPE_CHECKING:
    from collections.abc import Sequence


VALUES = {
    '{"seq":7}': "7",
    '{"seq":"7"}': "7",
    '{"seq":"007"}': "007",
    ' {"a":[1,{"b":2}], "seq" : 1099511627775 }\n': "1099511627775",
    '{"seq":"+7"}': "+7",
    '{"seq":-7}': "-7",
    '{"seq":-0}': "-0",
    '{"seq":7.0}': "7.0",
    '{"seq":""}': "",
    '{"seq":true}': "true",
    '{"seq":18446744073709551616}': "18446744073709551616",
    '{"seq":null}': None,
    "{}": None,
    "": None,
    "7": None,
    "nonsense": None,
    '{"seq":"7\\n"}': "7\n",
    '{"é":"\\u00e9","seq":7}': "7",
    '{"seq":7,\n"b":2}': "7",
}
LEFT_TO_JAVA = [
    '{"seq":7,"seq":8}',
    '{"a":{"seq":1},"seq":8}',
    '{"seq":007}',
    '{"seq":7} x',
    '{"seq":7,}',
    '{"s\\u0065q":7}',
    '{"seq":7',
    '{"a":"seq","seq":7}',
    '[{"seq":7}]',
    '{"seq":7,"a":\'b\'}',
]


def found(path: str, values: Sequence[str | None]) -> list[str | None]:
    """Return the texts at a path."""
    find = json_reader(path)
    assert find is not None
    return list(find(pa.array(values, pa.string())).cast(pa.string()).to_pylist())


@pytest.mark.parametrize("value", VALUES)
def test_alone_and_among_others(value: str) -> None:
    """One of a thousand plain ones, the first or the last; and a null beside it."""
    plain = [f'{{"seq":{number}}}' for number in range(1000)]
    numbers = [str(number) for number in range(1000)]
    assert found("$.seq", [value]) == [VALUES[value]]
    assert found("$.seq", [*plain, value]) == [*numbers, VALUES[value]]
    assert found("$.seq", [value, None, *plain]) == [VALUES[value], None, *numbers]


@pytest.mark.parametrize("value", LEFT_TO_JAVA)
def test_what_java_may_read_differently_is_left_to_it(value: str) -> None:
    for values in ([value], [f'{{"seq":{number}}}' for number in range(1000)] + [value]):
        with pytest.raises(NotOursToReadError):
            found("$.seq", values)


def test_two_records_of_which_one_has_the_name_twice_and_one_spells_it_otherwise() -> None:
    with pytest.raises(NotOursToReadError):
        found("$.seq", ['{"seq":1,"seq":2}', '{"s\\u0065q":3}'])


@pytest.mark.parametrize("seed", range(10))
def test_what_pythons_own_reader_finds(seed: int) -> None:
    dice = random.Random(seed)
    numbers = [dice.choice([dice.randrange(10 ** dice.randint(1, 13)), 0]) for _ in range(200)]
    values: list[str | None] = [
        json.dumps(
            {"pad": 'é\\"x' * dice.randint(0, 3), "order": {"x": [1, None, {}], "seq": number}},
            ensure_ascii=bool(number % 2),
        )
        for number in numbers
    ]
    assert found("$.order.seq", values) == [str(number) for number in numbers]


@pytest.mark.parametrize("path", ["$", "$.a[0]", "$.*", "$['a']", "seq", "$.a-b", "$..a"])
def test_paths_that_are_more_than_names_are_sparks(path: str) -> None:
    assert json_reader(path) is None
