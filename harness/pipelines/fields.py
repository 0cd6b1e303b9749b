"""The fields of a declaration: how each is read, and how a JSON schema describes it. One definition
serves both.

A table reads its fields by :meth:`Table.read`, which raises :class:`DeclarationError` with the
place and what to write.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.pipelines.broker import TopicSettings
from harness.pipelines.refusing import DeclarationError, choice, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

COMMAND = 'command: write text ("python run.py --fast") or a list of words (["python", "run.py"])'
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
"""What has no meaning of its own in a shell: an escaped character, or what stands in quotes."""
_OF_SHELL = re.compile(r"\|\|?|&&?|[^=-]\S*;|;|<|[\d&]?>>?(&\d|[\w./{-].*)?")
"""A word by which a shell joins commands, or sends their output elsewhere."""
Schema: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table. ``take(where, value)`` checks and converts a TOML value; ``schema`` is
    its JSON schema.

    ``told``: its meaning, in one line. ``needed``: whether the field is required.
    """

    take: Callable[[str, Any], Any]
    schema: Schema
    told: str = ""
    needed: bool = False
    table: Table | None = None
    """The table that the field holds, once or in a list; ``None`` for a plain value."""

    def means(self, told: str, *, needed: bool = False) -> Field:
        """Return a copy of the field with its meaning."""
        return replace(self, told=told, needed=needed)

    def described(self) -> Schema:
        """Return the field's JSON schema."""
        return {**self.schema, **({"description": self.told} if self.told else {})}


@dataclass(frozen=True, slots=True)
class Table:
    """A TOML table: its fields by name, and the function that makes an object of their values.

    ``early`` checks the whole table first, and may raise.
    """

    name: str
    make: Callable[..., Any]
    fields: Mapping[str, Field] = field(default_factory=dict)
    told: str = ""
    early: Callable[[Mapping[str, Any]], None] = lambda _: None

    def read(self, where: str, data: Any) -> Any:
        """Read a table field by field.

        Raises:
            DeclarationError: a field is unknown, missing, or of a wrong kind.
        """
        return self.make(**self.values(where, data))

    def values(self, where: str, data: Any) -> dict[str, Any]:
        """Return the value of each field that is there.

        Raises:
            DeclarationError: a field is unknown, missing, or of a wrong kind.
        """
        at = f"{where}: " if where else ""
        if not isinstance(data, dict):
            raise DeclarationError(f"{at}is a table, not {data!r}")
        self.early(data)
        for name in data:
            if name not in self.fields:
                raise DeclarationError(
                    f"{at}there is no field {name}; {nearest(name, self.fields)}"
                )
        for name, each in self.fields.items():
            if each.needed and name not in data:
                raise DeclarationError(f"{at}{name} is missing")
        return {name: self.fields[name].take(f"{at}{name}", value) for name, value in data.items()}

    def schema(self) -> Schema:
        """Return the table's JSON schema."""
        needed = [name for name, each in self.fields.items() if each.needed]
        return {
            "type": "object",
            **({"description": self.told} if self.told else {}),
            "additionalProperties": False,
            "properties": {name: each.described() for name, each in self.fields.items()},
            **({"required": needed} if needed else {}),
        }


def one(table: Table) -> Field:
    """Return a field that is a table."""
    return Field(table.read, table.schema(), table.told, table=table)


def each(table: Table, *, single: bool = False) -> Field:
    """Return a field that is a list of tables. ``single``: one table alone is accepted, too."""

    def take(where: str, value: Any) -> tuple[Any, ...]:
        if single and isinstance(value, dict):
            return (table.read(where, value),)
        if not isinstance(value, list):
            raise DeclarationError(f"{where}: write [[{where}]], once for each {where}")
        numbered = len(value) > 1 or not single
        return tuple(
            table.read(f"{where} {n}" if numbered else where, entry)
            for n, entry in enumerate(value, start=1)
        )

    many: Schema = {"type": "array", "items": table.schema()}
    return Field(
        take, {"anyOf": [table.schema(), many]} if single else many, table.told, table=table
    )


def _typed(what: str, *kinds: type) -> Callable[[str, Any], Any]:
    def take(where: str, value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise DeclarationError(f"{where}: {value!r} is no {what}")
        return value

    return take


def _text(where: str, value: Any) -> str:
    if not _typed("text", str)(where, value):
        raise DeclarationError(f"{where} is empty: write something, or leave it out")
    return str(value)


def _number_or_text(where: str, value: Any) -> str:
    if isinstance(
        _typed("number or text", int, float, str)(where, value), float
    ) and not math.isfinite(value):
        raise DeclarationError(
            f"{where}: {value!r} is not a number that a value can equal: write a finite number, "
            "or text"
        )
    return str(value)


def _above_zero(where: str, value: Any) -> Any:
    number = _typed("number", int, float)(where, value)
    if not 0 < number < math.inf:
        raise DeclarationError(f"{where}: {value!r} must be finite and above 0")
    return number


def _without_null(where: str, value: Any) -> str:
    """Return a text that can be passed to a program as an argument."""
    if "\0" in _typed("text", str)(where, value):
        raise DeclarationError(
            f"{where}: {value!r} has a null character, which cannot be passed to a program: take "
            "it out"
        )
    return str(value)


def _command(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, str):
        return tuple(_without_null(where, word) for word in _typed(COMMAND, list)(where, value))
    try:
        words = tuple(shlex.split(_without_null(where, value)))
    except ValueError as error:
        raise DeclarationError(f"{where}: {value!r}: {error}") from error
    bare = _QUOTED.sub("''", value).split()
    if word := next(filter(_OF_SHELL.fullmatch, bare), None):
        raise DeclarationError(
            f'{where}: {word}: a command has no shell: write ["sh", "-c", "..."], or put the word '
            "into quotes if the program is meant to be given it"
        )
    return words


def _texts(where: str, value: Any) -> tuple[str, ...]:
    return tuple(
        _typed("text", str)(where, word)
        for word in _typed('list: write it in brackets, ["…"]', list)(where, value)
    )


def _mapping(where: str, value: Any) -> dict[str, str]:
    table = _typed('table: write { NAME = "value" }', dict)(where, value)
    for name in table:
        if not name or "=" in name or "\0" in name:
            raise DeclarationError(
                f"{where}: {name!r} cannot be a variable's name: it must have no = or null "
                "character, and not be empty"
            )
    return {name: _without_null(f"{where}: {name}", word) for name, word in table.items()}


def _settings(where: str, value: Any) -> dict[str, str]:
    """Return settings as text; true and false as brokers write them."""
    table = _typed("table: write { NAME = value }", dict)(where, value)
    if nested := next((name for name, each in table.items() if isinstance(each, dict)), None):
        raise DeclarationError(f"{where}: {nested!r} is a table: write a name with dots in quotes")
    plain = {
        name: str(each).lower() if isinstance(each, bool) else _number_or_text(where, each)
        for name, each in table.items()
    }
    return _mapping(where, plain)


def _settings_of_topics(where: str, value: Any) -> TopicSettings:
    """Return settings, of which a table holds those of one topic."""
    table = _typed("table: write { NAME = value }", dict)(where, value)
    of = {name: each for name, each in table.items() if isinstance(each, dict)}
    return TopicSettings(
        each=_settings(where, {name: each for name, each in table.items() if name not in of}),
        of={name: _settings(f"{where}: {name}", each) for name, each in of.items()},
    )


TEXT = Field(_text, {"type": "string", "minLength": 1})
WHOLE = Field(_typed("whole number", int), {"type": "integer"})
NUMBER = Field(_above_zero, {"type": "number", "exclusiveMinimum": 0})
FLAG = Field(_typed("true or false", bool), {"type": "boolean"})
TEXTS = Field(_texts, {"type": "array", "items": {"type": "string"}})
WORDS = Field(
    _command, {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
)
MAPPING = Field(_mapping, {"type": "object", "additionalProperties": {"type": "string"}})
SETTINGS = Field(
    _settings,
    {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
)
SETTINGS_OF_TOPICS = Field(
    _settings_of_topics,
    {
        "type": "object",
        "additionalProperties": {
            "anyOf": [SETTINGS.schema["additionalProperties"], SETTINGS.schema]
        },
    },
)
PLAIN = Field(_number_or_text, {"type": ["number", "string"]})


def among(names: Iterable[Any], make: Callable[[str], Any] = str) -> Field:
    """Return a field whose value is one of ``names``. ``make`` converts the name to the value."""
    known = [str(name) for name in names]
    return Field(lambda where, value: make(choice(where, value, known)), {"enum": known})


def some(names: Iterable[Any]) -> Field:
    """Return a field that is a list of names. The object that is made of the table checks them."""
    return replace(
        TEXTS, schema={"type": "array", "items": {"enum": [str(name) for name in names]}}
    )
