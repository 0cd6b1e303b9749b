"""The programs that lostack starts for a pipeline, by a command or as a container: its stages and
services.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model.scenario import ROLES_OF_OURS, Role
from harness.pipelines.braces import PLACES, SECRETS, check_places, check_secrets
from harness.pipelines.refusing import DeclarationError, check_home, choice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

STAGE, PROCESS = "stage", "process"
"""What a crash kills."""
DOCKERFILE = "Dockerfile"
BUILT = "built from "
"""What stands for the name of an image that is built from a folder, which follows. No image has a
name with a blank.
"""
CELL, ONCE = "cell", "once"
"""How often a service is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that is started by a command, or as a container."""

    command: tuple[str, ...] = ()
    """The program and its arguments, as text or a list. With ``image``: the container's command;
    may be left out.
    """
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables besides lostack's own. Their values may hold names in braces, too."""
    image: str = ""
    """A container image. The container uses this machine's network, and sees the folders named in
    braces at the same paths.
    """
    build: str = ""
    """Instead of ``image``: the folder of a Dockerfile, from which the image is built once."""
    ready: str = ""
    """A regular expression that the program's output matches when it is ready. A stage needs none:
    a reading stage is ready when it fetches (with ``position = "elsewhere"``, also when it is told
    where its topic ends), a producer when it runs.
    """
    ready_within_s: float = 60.0
    """How many seconds to wait until the program is ready."""
    restart: bool = True
    """Whether the program is started again when it ends by an error, as a supervisor does (a
    reading stage: however it ends).
    """
    down_s: float = 0.0
    """How many seconds the program stays down before it is started again."""

    @property
    def reads(self) -> bool:
        """Whether the program is a stage that reads a topic."""
        return False

    @property
    def words(self) -> tuple[str, ...]:
        """Every text of the program in which names in braces are replaced."""
        return (*self.command, *self.environment.values())

    def image_in(self, directory: Path) -> str:
        """Return what its image is known by, over all declarations: folders of two may have the
        same name. ``directory``: the declaration's folder. Empty: it has none.
        """
        return f"{BUILT}{(directory / self.build).resolve()}" if self.build else self.image

    def check_program(self, what: str) -> None:
        """Raise :class:`DeclarationError` if the program cannot be started. ``what``: its name in
        the message.
        """
        if self.build:
            built = f"{BUILT}{self.build}"
            if self.image not in ("", built):
                raise DeclarationError(f"the {what} has image and build: write one of the two")
            object.__setattr__(self, "image", built)
        for word in self.command:
            check_secrets(f"the {what}'s command", word)
            check_places(f"the {what}'s command", word, PLACES)
        for name, word in self.environment.items():
            check_places(f"the {what}'s environment: {name}", word, (*PLACES, *SECRETS))
        if not self.command and not self.image:
            raise DeclarationError(f"the {what} has neither command nor image nor build: write one")
        try:
            re.compile(self.ready)
        except re.error as error:
            raise DeclarationError(
                f"ready: {self.ready!r} of the {what} is not a regular expression: {error}"
            ) from error
        if self.image.startswith("-") or (not self.build and re.search(r"\s", self.image)):
            raise DeclarationError(
                f"image: {self.image!r} of the {what} cannot be the name of an image"
            )


def check_interpreter(python: str) -> None:
    """Raise :class:`DeclarationError` if the project's own interpreter does not exist or cannot be
    executed.
    """
    if not shutil.which(python):
        raise DeclarationError(
            f"python: {python} does not exist, or is not executable: make the project's environment"
        )


def check_folder(what: str, build: str, directory: Path) -> None:
    """Raise :class:`DeclarationError` if there is no Dockerfile from which an image is built."""
    if not (directory / build / DOCKERFILE).is_file():
        raise DeclarationError(
            f"build: {directory / build} has no {DOCKERFILE}, from which the {what}'s image would "
            "be built"
        )


_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
"""How a first word begins by which a shell sets a variable."""


def check_command(
    what: str, program: str, directory: Path, path: str | None, *, beside: bool
) -> None:
    """Raise :class:`DeclarationError` if a command's program cannot be found.

    ``path``: where programs are looked for; ``None`` for the ``PATH``. ``beside``: look for bare
    names in ``directory``, too. A program whose path holds a name in braces that has no value yet
    is not checked.
    """
    check_home(what, program)
    if "{" in program or shutil.which(program, path=path if beside else None):
        return
    there = directory / program
    if (beside or "/" in program) and there.is_file() and shutil.which(str(there)):
        return
    hint = "it is neither on the PATH nor in " + str(directory)
    if _VARIABLE.match(program):
        hint = (
            'no shell sets a variable there: put it into environment, or write ["sh", "-c", "..."]'
        )
    elif there.is_file():
        hint = (
            f"{there} is not executable"
            if beside or not shutil.which(str(there))
            else f"write ./{program}, or {{here}}/{program}"
        )
    raise DeclarationError(f"{what} {program!r} cannot be started: {hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Program):
    """A server that the stages need: a database, a schema registry, Redis.

    It is started before the stages, and is ready when its output matches ``ready``, or else when
    its port is open. lostack kills and pauses it at failure points of its own.
    """

    name: str
    """Its name. ``{NAME.port}`` is a free port of this machine, ``{NAME.dir}`` a folder of its own
    that outlives its crashes.
    """
    anew: str = CELL
    """When it is started: for each ``cell``, with an empty folder, or ``once``, for as long as the
    broker lives. With ``once`` the programs must make sure that a cell does not see data of another
    cell.
    """
    pause_s: float = 5.0
    """How many seconds a pause of it lasts."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise DeclarationError(
                f"service: name {self.name!r}: use lower-case letters, digits and _ only"
            )
        if self.name in ROLES_OF_OURS:
            raise DeclarationError(
                f"service: name {self.name!r} is the name of one of lostack's own nodes: choose "
                "another name"
            )
        self.check_program(f"service {self.name}")
        choice("service: anew", self.anew, (CELL, ONCE))

    @property
    def known(self) -> Role:
        """The service's name in histories."""
        return Role(self.name)
