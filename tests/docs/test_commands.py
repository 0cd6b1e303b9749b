"""Every command line that a page shows is one that lostack has: its command, and each of its
options.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest
import typer
from typer.core import TyperGroup

from harness.cli.application import application
from tests.docs import pages
from tests.docs.pages import ROOT
from tests.narrow import narrow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SPOKEN = re.compile(r"`(lostack [a-z][^`\n]*)`")
COMMANDS = {
    name: {word for option in command.params for word in (*option.opts, *option.secondary_opts)}
    for name, command in narrow(typer.main.get_command(application()), TyperGroup).commands.items()
}


def shown(text: str) -> Iterator[str]:
    """Yield the command lines of a page: in blocks behind a prompt, and in its sentences."""
    for block in _BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            prompt, _, rest = line.partition("lostack ")
            if prompt in {"$ ", "$ .venv/bin/"}:
                yield f"lostack {rest}"
    yield from _SPOKEN.findall(_BLOCK.sub("", text))


def wrong(line: str) -> str | None:
    """Say what of a command line does not exist."""
    words = shlex.split(line, comments=True)[1:]
    if not words or words[0].startswith("-"):
        return None
    if words[0] not in COMMANDS:
        return f"no command {words[0]}"
    known = COMMANDS[words[0]] | {"--help"}
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    return next((f"{words[0]} has no {option}" for option in options if option not in known), None)


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_of_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [(line, why) for line in shown(text) if (why := wrong(line))] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```\n$ lostack attach x\n```\n", ["no command attach"]),
        ("say `lostack run --sede 1`", ["run has no --sede"]),
        ("```\n$ lostack run --seed 1   # all\nlostack is\n```\n`lostack --version`", []),
    ],
)
def test_a_command_that_does_not_exist_is_seen(text: str, why: list[str]) -> None:
    assert [found for line in shown(text) if (found := wrong(line))] == why
