"""Compile Protobuf sources (.proto) into descriptor sets."""

from __future__ import annotations

import importlib.resources
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from harness.values.missing import SchemaError, library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def described(file: Path) -> bytes:
    """Return the descriptor set of a .proto file and of its imports (files in the same folder, or
    Google's own).

    Raises:
        SchemaError: the compiler is not installed, or the file does not compile.
    """
    if (found := _compiled(file)) is None:
        raise SchemaError(f"{file} does not compile: see protoc's message above")
    return found


def described_texts(name: str, texts: Mapping[str, str]) -> bytes:
    """Return the descriptor set of the source ``name``. ``texts``: all sources by the names under
    which they import each other.

    Raises:
        SchemaError: the compiler is not installed, a name is not a file's name, or the sources do
            not compile.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        for each, text in texts.items():
            file = (folder / each).resolve()
            if not file.is_relative_to(folder):
                raise SchemaError(f"protobuf: a source cannot be imported by the name {each!r}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if (found := _compiled(folder / name)) is None:
            raise SchemaError("protobuf: the schema does not compile")
        return found


def _compiled(file: Path) -> bytes | None:
    compile_: Callable[[list[str]], int] = library("grpc_tools.protoc", "protobuf").main
    googles = importlib.resources.as_file(importlib.resources.files("grpc_tools") / "_proto")
    with googles as known, tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        words = [
            "protoc",
            f"-I{file.parent}",
            f"-I{known}",
            "--include_imports",
            f"--descriptor_set_out={out}",
            str(file),
        ]
        return None if compile_(words) or not out.exists() else out.read_bytes()
