"""Reading a pipeline from TOML: every wrong field is named, with the nearest right one."""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from harness.model.identity import Identity, IdentityError
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.pipelines.aggregates import Aggregate, Of
from harness.pipelines.declaration import ROLES, Input, InputKind, Output, OutputKind, Pipeline, Resend, Stage
from harness.pipelines.invariants import Invariant
from harness.pipelines.programs import Service
from harness.pipelines.refusing import DeclarationError, choice, nearest
from harness.pipelines.security import DeclaredSecurity, check_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

COMMAND = 'command: write text ("python run.py --fast") or a list of words (["python", "run.py"])'
_TABLES = {"stage": "stages"}
_HIDDEN = {"directory", "file"}


def read_pipeline(file: Path) -> Pipeline:
    """Read a declaration. Raises :class:`DeclarationError` with one line that names the file."""
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeclarationError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeclarationError(f"{file} is no TOML: {error}") from error
    try:
        return _pipeline(data, file)
    except (DeclarationError, IdentityError) as error:
        raise DeclarationError(f"{file}: {error}") from error


def _pipeline(data: Mapping[str, Any], file: Path) -> Pipeline:
    data = {"name": _name(file.resolve().parent.name), **data}
    if "topic" in data and "topics" not in data:
        data["topics"] = [data.pop("topic")]
    read: dict[str, Callable[[Any], Any]] = {
        "name": _text("name"), "claims": lambda v: Semantic(choice("claims", v, Semantic)), "topics": _texts("topics"),
        "system": _text("system"),
        "stage": _stages, "input": _input, "output": _output, "security": _security, "id": _identity,
        "records": _whole("records"), "partitions": _whole("partitions"), "drain_s": _number("drain_s"),
        "patience_s": _number("patience_s"), "expects": _texts("expects"), "order": _text("order"),
        "aggregate": _aggregate, "invariant": _invariants, "service": _services,
    }  # fmt: skip
    values = _values("", data, read, needed=("claims", "topics", "stage", "output"))
    values["stages"] = values.pop("stage")
    values["invariants"], values["services"] = values.pop("invariant", ()), values.pop("service", ())
    return Pipeline(**values, directory=file.resolve().parent, file=str(file))


def _name(folder: str) -> str:
    """Return the name of a pipeline whose declaration gives it none: its folder's, without what a cell's id cannot have.

    >>> _name("my orders (new)")
    'my-orders-new'
    """
    return re.sub(r"[^\w-]+", "-", folder).strip("-") or "pipeline"


def _stages(value: Any) -> tuple[Stage, ...]:
    if not isinstance(value, list):
        raise DeclarationError("stage: write [[stage]], once for each stage")
    return tuple(_stage(entry, number) for number, entry in enumerate(value, start=1))


def _program(where: str) -> dict[str, Callable[[Any], Any]]:
    return {
        "command": _command(f"{where}: command"), "image": _text(f"{where}: image"),
        "environment": _mapping(f"{where}: environment"), "ready": _text(f"{where}: ready"),
        "ready_within_s": _number(f"{where}: ready_within_s"), "restart": _flag(f"{where}: restart"),
        "down_s": _number(f"{where}: down_s"),
    }  # fmt: skip


def _services(value: Any) -> tuple[Service, ...]:
    if not isinstance(value, list):
        raise DeclarationError("service: write [[service]], once for each service")
    return tuple(_service(entry, number) for number, entry in enumerate(value, start=1))


def _service(data: Any, number: int) -> Service:
    where = f"service {number}"
    read = _program(where) | {
        "name": _text(f"{where}: name"), "anew": _text(f"{where}: anew"), "pause_s": _number(f"{where}: pause_s"),
    }  # fmt: skip
    return Service(**_values(where, data, read, needed=("name",)))


def _stage(data: Any, number: int) -> Stage:
    where = f"stage {number}"
    read = _program(where) | {
        "role": lambda v: Role(choice(f"{where}: role", v, ROLES)),
        "position": _text(f"{where}: position"), "failpoints": _texts(f"{where}: failpoints"),
        "refusals": _texts(f"{where}: refusals"),
        "crash": _text(f"{where}: crash"),
    }  # fmt: skip
    return Stage(**_values(where, data, read, needed=("role",)))


def _input(data: Any) -> Input:
    read: dict[str, Callable[[Any], Any]] = {
        "kind": lambda v: InputKind(choice("input: kind", v, InputKind)), "line": _text("input: line"),
        "rate": _number("input: rate"), "resend": lambda v: Resend(choice("input: resend", v, Resend)),
        "topic": _text("input: topic"), "url": _text("input: url"),
    }  # fmt: skip
    return Input(**_values("input", data, read))


def _output(data: Any) -> Output:
    read: dict[str, Callable[[Any], Any]] = {
        "kind": lambda v: OutputKind(choice("output: kind", v, OutputKind)), "topic": _text("output: topic"),
        "file": _text("output: file"), "query": _text("output: query"), "command": _command("output: command"),
        "quiet_s": _number("output: quiet_s"),
    }  # fmt: skip
    return Output(**_values("output", data, read, needed=("kind",)))


def _security(data: Any) -> DeclaredSecurity:
    known = [f.name for f in fields(DeclaredSecurity)]
    if isinstance(data, dict):
        check_identity(data)
    read = {name: _text(f"security: {name}") for name in known}
    return DeclaredSecurity(**_values("security", data, read, needed=("protocol",)))


def _identity(data: Any) -> Identity:
    known = [f.name for f in fields(Identity)]
    return Identity(**_values("id", data, {name: _text(f"id: {name}") for name in known}))


def _aggregate(data: Any) -> Aggregate:
    read: dict[str, Callable[[Any], Any]] = {
        "of": lambda v: Of(choice("aggregate: of", v, Of)), "pattern": _text("aggregate: pattern"),
    }  # fmt: skip
    return Aggregate(**_values("aggregate", data, read, needed=("of",)))


def _invariants(data: Any) -> tuple[Invariant, ...]:
    read: dict[str, Callable[[Any], Any]] = {
        "query": _text("invariant: query"), "command": _command("invariant: command"), "equals": _plain("invariant: equals"),
    }  # fmt: skip
    entries = data if isinstance(data, list) else [data]
    return tuple(Invariant(**_values("invariant", entry, read, needed=("equals",))) for entry in entries)


def _values(where: str, data: Any, read: Mapping[str, Callable[[Any], Any]], needed: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read a table field by field; raise where one is unknown, missing, or of a wrong kind."""
    at = f"{where}: " if where else ""
    if not isinstance(data, dict):
        raise DeclarationError(f"{at}is a table, not {data!r}")
    for name in data:
        if name not in read:
            raise DeclarationError(f"{at}there is no field {name}; {nearest(name, read)}")
    for name in needed:
        if name not in data:
            raise DeclarationError(f"{at}{name} is missing")
    return {name: read[name](value) for name, value in data.items()}


def _typed(where: str, what: str, *kinds: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise DeclarationError(f"{where}: {value!r} is no {what}")
        return value

    return read


def _text(where: str) -> Callable[[Any], Any]:
    return _typed(where, "text", str)


def _whole(where: str) -> Callable[[Any], Any]:
    return _typed(where, "whole number", int)


def _number(where: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        number = _typed(where, "number", int, float)(value)
        if not 0 < number < math.inf:
            raise DeclarationError(f"{where}: {value!r} is not above 0 and finite")
        return number

    return read


def _plain(where: str) -> Callable[[Any], Any]:
    return lambda value: str(_typed(where, "number or text", int, float, str)(value))


def _flag(where: str) -> Callable[[Any], Any]:
    return _typed(where, "true or false", bool)


def _texts(where: str) -> Callable[[Any], Any]:
    return lambda value: tuple(_text(where)(each) for each in _typed(where, 'list: write it in brackets, ["…"]', list)(value))


def _command(where: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return tuple(_text(where)(each) for each in _typed(where, COMMAND, list)(value))
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise DeclarationError(f"{where}: {value!r}: {error}") from error

    return read


def _mapping(where: str) -> Callable[[Any], Any]:
    return lambda value: {
        name: _text(f"{where}: {name}")(each)
        for name, each in _typed(where, 'table: write { NAME = "value" }', dict)(value).items()
    }
