"""What is started for a pipeline by a plain command, or as a container: its stages, and the services beside them."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model.scenario import ROLES_OF_OURS, Role
from harness.pipelines.braces import PLACES, SECRETS, check_places, check_secrets
from harness.pipelines.refusing import DeclarationError, choice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STAGE, PROCESS = "stage", "process"
"""What a crash ends."""
CELL, ONCE = "cell", "once"
"""How often a service is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is started by a command, or as a container."""

    command: tuple[str, ...] = ()
    """The program and its arguments, as text or a list. With ``image``: what is handed to the container, or nothing."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables besides lostack's own; their values may name places in braces, too."""
    image: str = ""
    """A container image. It has this machine's network and sees the folders that are named in braces at the same places."""
    ready: str = ""
    """A regular expression that the output shows when the program does its work. A stage needs none: a consuming one is
    ready when it fetches, a producer when it runs."""
    ready_within_s: float = 60.0
    """How long to wait for that."""
    restart: bool = True
    """Whether what has ended by an error is started again, as a supervisor would. (A consuming stage: whatever it ended by.)"""
    down_s: float = 0.0
    """How long whatever has ended is down before it is started again."""

    @property
    def reads(self) -> bool:
        """Whether it is a stage that reads a topic."""
        return False

    @property
    def words(self) -> tuple[str, ...]:
        """Every text in it that places are put into."""
        return (*self.command, *self.environment.values())

    def check_program(self, what: str) -> None:
        """Raise :class:`DeclarationError` where it cannot be started. ``what``: how it is called."""
        for word in self.command:
            check_secrets(f"the {what}'s command", word)
            check_places(f"the {what}'s command", word, PLACES)
        for name, word in self.environment.items():
            check_places(f"the {what}'s environment: {name}", word, (*PLACES, *SECRETS))
        if not self.command and not self.image:
            raise DeclarationError(f"the {what} has no command and no image")
        try:
            re.compile(self.ready)
        except re.error as error:
            raise DeclarationError(f"ready: {self.ready!r} of the {what} is no regular expression: {error}") from error
        if self.image.startswith("-") or self.image != self.image.strip():
            raise DeclarationError(f"image: {self.image!r} of the {what} is no name of an image")


def check_interpreter(python: str) -> None:
    """Raise :class:`DeclarationError` where the project's own interpreter is not there."""
    if not shutil.which(python):
        raise DeclarationError(f"python: {python} is not there, or is not executable: make the project's environment")


def check_command(what: str, program: str, directory: Path, path: str | None, *, beside: bool) -> None:
    """Raise :class:`DeclarationError` where a program is not there.

    ``path``: where programs of stages are looked for, ``None`` for the ``PATH``; ``beside``: also in ``directory``, by their bare
    names. Of one that is named by a place that nobody knows yet, nothing is said.
    """
    if "{" in program or shutil.which(program, path=path if beside else None):
        return
    there = directory / program
    if (beside or "/" in program) and there.is_file() and shutil.which(str(there)):
        return
    hint = "it is neither on the PATH nor in " + str(directory)
    if there.is_file():
        hint = (
            f"{there} is not executable"
            if beside or not shutil.which(str(there))
            else f"write ./{program}, or {{here}}/{program}"
        )
    raise DeclarationError(f"{what} {program!r} cannot be started: {hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Program):
    """A server that the stages need: a database, a schema registry, Redis.

    It is started before the stages, and ready when its output shows ``ready``, or else when its port is open. It is killed and
    paused, as failure points of its own.
    """

    name: str
    """Its name. ``{NAME.port}`` is a free port of this machine, ``{NAME.dir}`` a folder of its own that outlives its crashes."""
    anew: str = CELL
    """How often it is started: for each ``cell``, with an empty folder, or ``once`` for as long as the broker lives. With
    ``once`` the programs must see to it that no cell finds what another has left."""
    pause_s: float = 5.0
    """How long it is stopped when it is paused."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise DeclarationError(f"service: name {self.name!r}: lower-case letters, digits and _ only")
        if self.name in ROLES_OF_OURS:
            raise DeclarationError(f"service: name {self.name!r} is what lostack calls a node of its own: take another one")
        self.check_program(f"service {self.name}")
        choice("service: anew", self.anew, (CELL, ONCE))

    @property
    def known(self) -> Role:
        """What it is called in histories."""
        return Role(self.name)

    @property
    def crash(self) -> str:
        """What dies of a crash: all of it."""
        return STAGE
