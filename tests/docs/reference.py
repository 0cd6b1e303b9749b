"""The reference pages, made from the registries: commands, events, the declaration's fields."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
from collections import abc
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

import msgspec
import typer

from harness.cli.application import EPILOG, application
from harness.model import events
from harness.model.events import authorities, programs, runner, topics, wire
from harness.pipelines import inputs, outputs, reading
from tests.docs.markdown import MADE, cell, columns, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.pipelines.fields import Table

_SECTION: Final = re.compile(r"# --- (.+?) -*$")
_TYPES: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
}
_WORDS: Final[Mapping[Any, list[str]]] = {
    str: ["text"],
    int: ["whole number"],
    float: ["number"],
    bool: ["true", "false"],
    type(None): ["null"],
    msgspec.UnsetType: [],
}
"""What the values of a plain type are, as JSON has them."""
_OF_VALUES: Final = (
    "In brackets stands what the value of a field is. A *required* field stands in every line of "
    "its kind. A line without it, or with another value in any field, is damage: it voids its "
    "cell. Any other field may be missing: it has the value that stands behind *else*, or else it "
    "is null, false, 0 or empty."
)
_TAKES: Final = {"int": "N", "float": "N", "Path": "PATH"}


def documented(source: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield the names that a module, or a class, assigns: its name, its value where that is a text,
    and its docstring.
    """
    lines = source.splitlines()
    tree = ast.parse(source)
    for node, behind in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        for line in reversed(lines[: node.lineno - 1]):
            if line.strip() and not line.startswith("# ---"):
                break
            if found := _SECTION.match(line):
                yield "", None, found[1]
                break
        value = (
            node.value.value
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            else None
        )
        said = behind.value if isinstance(behind, ast.Expr) else None
        doc = said.value if isinstance(said, ast.Constant) and isinstance(said.value, str) else ""
        yield node.target.id, value, doc


def event_page() -> str:
    """Return the page of every kind of event."""
    out = [
        "# Events of a history",
        "",
        MADE,
        plain(events.__doc__ or ""),
        "",
        _OF_VALUES,
        "",
        "Every event has:",
        "",
    ]
    out += _fields_of(events.Event, events.Event)
    for module in (authorities, programs, wire, runner, topics):
        out += [f"## {(module.__doc__ or '').rstrip('.')}", ""]
        for kind, each in events.CLASSES.items():
            if each.__module__ == module.__name__:
                out += [f"### {kind}", "", plain(each.__doc__ or ""), "", *_fields_of(each)]
    return "\n".join(out).rstrip() + "\n"


def _fields_of(kind: type[events.Event], *but: type[events.Event]) -> list[str]:
    """Return the fields of a kind, each as an item of a list."""
    lines = [
        each
        for each in reversed(kind.__mro__)
        if issubclass(each, events.Event) and (each is not events.Event or each in but)
    ]
    told = {name: doc for each in lines for name, doc in _described(each)}
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    return [
        *(
            f"- `{fields[name].encode_name}` ({said_of(fields[name].type)}"
            f"{', required' if fields[name].required else _else(fields[name])})"
            f"{': ' if doc else ''}{' '.join(plain(_with_values(doc)).split())}"
            for name, doc in told.items()
        ),
        *([""] if told else []),
    ]


def _else(field: msgspec.structs.FieldInfo) -> str:
    """Say which value a field has that a line lacks, unless that is null, false, 0 or empty. What
    must stand in a line, and is not known before it is written, begins as -1.
    """
    value = field.default
    if value == -1:
        return ", required"
    return f", else {json.dumps(value)}" if value and value is not msgspec.UNSET else ""


def _with_values(doc: str) -> str:
    """Return a field's docstring with the values of each enumeration of events that it names."""

    def and_values(found: re.Match[str]) -> str:
        named = getattr(events, found[1], None)
        values = said_of(named) if inspect.isclass(named) and issubclass(named, Enum) else ""
        return f"{found[0]}{f' ({values})' if values else ''}"

    return re.sub(r":class:`(\w+)`", and_values, doc)


def said_of(kind: Any) -> str:
    """Return what the values of a type are, in JSON, as words.

    >>> said_of(tuple[str, ...] | None), said_of(bool)
    ('list of texts or null', 'true or false')
    """
    *others, last = _values_of(kind)
    return f"{', '.join(others)} or {last}" if others else last


def _values_of(kind: Any) -> list[str]:
    """Return the values of a type, or what they are, null last."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        found = [value for each in args for value in _values_of(each)]
        less = {"null"} | ({"whole number"} if "number" in found else set())
        return [each for each in found if each not in less] + ["null"] * ("null" in found)
    if origin is tuple:
        many = args[-1] is Ellipsis
        return [f"list of {_many(args[0])}" if many else f"[{', '.join(map(said_of, args))}]"]
    if origin in (dict, abc.Mapping):
        return ["object" if args[1] in {Any, object} else f"object of {_many(args[1])}"]
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return [f"`{each.value}`" for each in kind]
    return _WORDS[kind]


def _many(kind: Any) -> str:
    return " or ".join(
        each if each.startswith(("[", "`")) else f"{each}s" for each in _values_of(kind)
    )


def _described(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the fields that a class declares itself, each with its docstring."""
    [made] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(made, ast.ClassDef)
    for node, behind in zip(made.body, [*made.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            said = behind.value if isinstance(behind, ast.Expr) else None
            text = said.value if isinstance(said, ast.Constant) else None
            yield node.target.id, text if isinstance(text, str) else ""


def command_page() -> str:
    """Return the page of every command and option."""
    out = ["# Commands", "", MADE]
    group: Any = typer.main.get_command(application())
    out += columns("command", "what it does")
    for name, command in group.commands.items():
        out.append(
            f"| [`lostack {name}`](#lostack-{name}) | "
            f"{cell(plain(command.help).split(chr(10) * 2)[0])} |"
        )
    out += ["", EPILOG.replace("Exit codes: ", "**Exit codes:** "), ""]
    for name, command in group.commands.items():
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        options = [
            each
            for each in command.params
            if each.param_type_name == "option" and each.name != "help"
        ]
        usage = " ".join(
            [f"lostack {name}", *map(_argument, arguments), *(["[OPTIONS]"] if options else [])]
        )
        out += [f"## lostack {name}", "", "```", usage, "```", "", plain(command.help), ""]
        out += columns("", "", "default") if arguments or options else []
        defaults = {
            each.name: each.default
            for each in inspect.signature(command.callback).parameters.values()
        }
        out += [f"| `{_argument(each)}` | {cell(each.help or '')} | |" for each in arguments]
        out += [
            f"| `{_option(each)}` | {cell(each.help or '')} | {_default(defaults.get(each.name))} |"
            for each in options
        ]
        out.append("")
    return "\n".join(out).rstrip() + "\n"


def _argument(argument: Any) -> str:
    several = "list" in str(argument.type_descriptor.annotation)
    name = (argument.metavar or argument.name.upper()) + ("..." if several else "")
    return name if argument.required else f"[{name}]"


def _option(option: Any) -> str:
    name = " / ".join([*option.opts, *(option.secondary_opts if option.default is True else [])])
    kind = str(option.type_descriptor.annotation)
    if kind in {"<class 'bool'>", "bool"}:
        return name
    takes = next((word for sign, word in _TAKES.items() if sign in kind), "TEXT")
    return f"{name} {option.metavar or takes}"


def _default(value: Any) -> str:
    if value is True:
        return "yes"
    if isinstance(value, bool) or value in (None, (), [], inspect.Parameter.empty):
        return ""
    return ", ".join(
        f"`{each}`" for each in (value if isinstance(value, (list, tuple)) else [value])
    )


def declaration_page() -> str:
    """Return the page of every table and field of a declaration, of the fields that it
    is read by.
    """
    about = (
        "What a `pipeline.toml` may hold. How to use it: [your own pipeline](../own-pipeline.md)."
    )
    out = ["# The declaration", "", MADE, about, ""]
    for title, table in tables(reading.PIPELINE, "The file"):
        out += [
            f"## {title}",
            "",
            plain(table.make.__doc__ or ""),
            "",
            *columns("field", "what it may be", "default", ""),
        ]
        told, left_out = explained(table.make), defaults(table.make)
        for name, field in table.fields.items():
            said = plain(told.get(name) or told.get(f"{name}s") or field.told)
            said += " (*needed*)" if field.needed else ""
            takes = cell(_takes_value(field.schema))
            out.append(f"| `{name}` | {takes} | {left_out.get(name, '')} | {cell(said)} |")
        out.append("")
    for kind in (inputs.InputKind, outputs.OutputKind, inputs.Resend):
        docs = {name: doc for name, _, doc in documented(_annotated(kind))}
        out += [
            f"## {_words(kind.__name__)}",
            "",
            plain(kind.__doc__ or ""),
            "",
            *columns("value", ""),
        ]
        out += [f"| `{each.value}` | {cell(plain(docs.get(each.name, '')))} |" for each in kind]
        out.append("")
    return "\n".join(out).rstrip() + "\n"


def explained(kind: Any) -> dict[str, str]:
    """Return what the docstrings of a dataclass's fields say, those of its bases included."""
    bases: tuple[type, ...] = getattr(kind, "__mro__", ())
    lines = filter(dataclasses.is_dataclass, reversed(bases))
    return {name: doc for each in lines for name, _, doc in documented(_body(each)) if doc}


def defaults(kind: Any) -> dict[str, str]:
    """Return what the fields of a dataclass are where nothing is said of them."""
    found = (
        {each.name: each.default for each in dataclasses.fields(kind)}
        if dataclasses.is_dataclass(kind)
        else {}
    )
    shown = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in found.items()
    }
    return {
        name: f"`{value}`"
        for name, value in shown.items()
        if value not in (dataclasses.MISSING, None, "", ())
    }


def tables(table: Table, title: str) -> Iterator[tuple[str, Table]]:
    """Yield the tables of a declaration, each with how it is written, the outermost first."""
    yield title, table
    for name, field in table.fields.items():
        if field.table is not None:
            several = field.schema.get("type") == "array" or "anyOf" in field.schema
            yield from tables(field.table, f"[[{name}]]" if several else f"[{name}]")


def _takes_value(schema: dict[str, Any]) -> str:
    """Return what a schema lets stand, in words.

    >>> _takes_value({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
    'text, or list of text'
    """  # noqa: E501
    if "anyOf" in schema:
        return ", or ".join(dict.fromkeys(_takes_value(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    kind = schema["type"]
    if isinstance(kind, list):
        return ", or ".join(_TYPES[each] for each in kind)
    if kind == "array":
        return (
            "tables"
            if schema["items"].get("type") == "object"
            else f"list of {_takes_value(schema['items'])}"
        )
    if kind == "object":
        return "table" if "properties" in schema else "table of text"
    return _TYPES[kind]


def _body(kind: type) -> str:
    return "\n".join(line[4:] for line in inspect.getsource(kind).splitlines()[2:])


def _annotated(kind: type) -> str:
    """Return the members of an enumeration as :func:`documented` reads them."""
    return re.sub(r"^([A-Z]+) = ", r"\1: str = ", _body(kind), flags=re.MULTILINE)


def _words(name: str) -> str:
    """Return a class's name as words.

    >>> _words("InputKind")
    'Input kind'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()
