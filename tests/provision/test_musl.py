"""On a system with musl, ``make`` says in one line that it will not do, and fetches nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAID = "lostack needs a Linux with glibc, and this one has musl"


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run make in a folder that has the Makefile and what it reads, and no environment yet."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return subprocess.run(
        ("make", "--no-print-directory", *words),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("loaders", "refused"),
    [
        (("lib/ld-musl-x86_64.so.1",), True),
        (("lib/ld-musl-x86_64.so.1", "lib64/ld-linux-x86-64.so.2"), False),
        (("lib/ld-linux-aarch64.so.1",), False),
    ],
)
def test_a_loader_of_musl_alone_is_refused(
    tmp_path: Path, loaders: tuple[str, ...], refused: bool
) -> None:
    """Debian may have musl's loader beside its own, for those who build with it."""
    for loader in loaders:
        (tmp_path / loader).parent.mkdir(exist_ok=True)
        (tmp_path / loader).touch()
    ran = make(tmp_path, f"SYSTEM={tmp_path}", "help")
    assert (SAID in ran.stderr, ran.returncode != 0) == (refused, refused), ran.stderr
    assert len(ran.stderr.splitlines()) == int(refused)


def test_a_python_of_musl_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$2" in *confstr*) exit 1;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    ran = make(tmp_path, f"PYTHON={python}", "set-up")
    assert SAID in ran.stderr
    assert ran.returncode != 0
    assert not (tmp_path / ".venv").exists()
