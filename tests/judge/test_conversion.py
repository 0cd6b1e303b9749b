"""Threads may meet a type at the same time, when they read histories and plans."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from harness.model.conversion import convert
from tests.points import ROOT

PROGRAM = """
import sys, threading, types
{imported}
sys.setswitchinterval(1e-6)
text = '''
from __future__ import annotations
from dataclasses import dataclass
import msgspec
{inside}
    x: int
    y: list[str]
    z: dict[str, int]
{whole}
    a: Inside
    b: tuple[Inside, ...]
    c: dict[str, Inside]
'''
inside = {{"x": 1, "y": ["y"], "z": {{"z": 1}}}}
plain = {{"a": inside, "b": [inside, inside], "c": {{"c": inside}}}}
wrong = []
for number in range(150):
    module = sys.modules[f"fresh{{number}}"] = types.ModuleType(f"fresh{{number}}")
    exec(text, module.__dict__)
    together = threading.Barrier(6)
    def meet():
        together.wait()
        try:
            convert(plain, module.Whole)
        except Exception as error:
            wrong.append(repr(error))
    threads = [threading.Thread(target=meet) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(wrong[:1])
"""
KINDS = {
    "dataclass": ("@dataclass\nclass Inside:", "@dataclass\nclass Whole:"),
    "struct": ("class Inside(msgspec.Struct):", "class Whole(msgspec.Struct):"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_type_that_several_threads_meet_first_is_learnt_by_one(kind: str) -> None:
    """With msgspec's own function the process dies by SIGSEGV, or a thread fails (0.22)."""
    inside, whole = KINDS[kind]
    program = PROGRAM.format(
        imported="from harness.model.conversion import convert", inside=inside, whole=whole
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr


def test_nobody_reads_typed_data_without_it() -> None:
    around = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "harness").rglob("*.py"))
        if "msgspec" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"msgspec.convert", "msgspec.json.Decoder"}
    ]
    assert set(around) == {"harness/model/conversion.py", "harness/audit/json_ids.py"}


def test_a_value_that_does_not_fit_is_refused_each_time() -> None:
    """The first time too, when the type is learnt."""
    for _ in range(2):
        with pytest.raises(ValueError, match="Expected `int`"):
            convert(["x", 1, 2], tuple[int, int, int])
        with pytest.raises(ValueError, match="Expected `array`"):
            convert(1, tuple[int, int, int])
