"""A declared stage: one program of a pipeline, or one group of its members."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.model.scenario import ROLES_OF_OURS, Role
from harness.pipelines.connectors import RUNNING, connector_command
from harness.pipelines.programs import (
    PROCESS,
    STAGE,
    Program,
)
from harness.pipelines.refusals import Refusal
from harness.pipelines.refusing import DeclarationError, choice

if TYPE_CHECKING:
    from collections.abc import Mapping

ROLES = (Role.PRODUCER, Role.CONSUMER, Role.PROCESSOR)
CONSUMING = (Role.CONSUMER, Role.PROCESSOR)
POSITIONS = ("group", "elsewhere")
"""Where a reading stage may keep its position."""
AT_END = "end"
BEGINNINGS = ("start", AT_END)
"""Where a reading stage without a position may begin."""
NAME = re.compile(r"[a-z][a-z0-9_]*")
MOST_MEMBERS = 4
"""The most members of a stage that lostack starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Program):
    """A program of the pipeline. A crash kills it with all processes that it has started, detached
    ones too.

    Several stages of one role read in consumer groups of their own. All members of one group are
    one stage, and its command starts all of them, because lostack cannot know in advance which
    member receives a record.
    """

    role: Role
    """``producer``, ``consumer`` or ``processor``."""
    name: str = ""
    """Its name. Needed if several stages have one role. Each stage has its own address of the
    brokers. By default its role.
    """
    position: str = "group"
    """``group``: the position is in Kafka's consumer group. ``elsewhere``: skipped and unread
    records cannot be told apart.
    """
    begins: str = "start"
    """Where a reading stage without a position is meant to begin: at the ``start`` of what is
    there, or at the ``end``.
    """
    failpoints: tuple[str, ...] = ()
    """Names that the program passes to ``failpoint(name, id)``. At each of them it is killed while
    it works on the target.
    """
    refusals: tuple[str, ...] = ()
    """Requests that lostack refuses in the broker's name, each a failure point: ``"Produce
    NOT_ENOUGH_REPLICAS"``. With ``done`` at the end the broker carries out the request all the
    same: ``"Produce REQUEST_TIMED_OUT done"``.
    """
    crash: str = STAGE
    """What a crash kills: the whole ``stage``, or only the ``process`` that hit the fault."""
    scale: int = 1
    """How many members of its group lostack starts, each by its command: 1 to 4. With several, a
    crash kills the member that hit the fault, and members join and leave (not the workers of a
    connector).
    """
    connector: str = ""
    """A connector of Kafka Connect instead of a command: its JSON file, as it is POSTed to
    ``/connectors``. lostack starts a distributed worker for it, which is the stage's process. A
    source connector is a producer, a sink connector a consumer; with ``scale`` a sink has several
    workers, which share its tasks. With fewer tasks (``tasks.max``) than workers, some stand by.
    """
    plugins: tuple[str, ...] = ()
    """With ``connector``: the folder of its jars, or folders of such folders (``plugin.path``)."""
    worker: Mapping[str, str] = field(default_factory=dict)
    """With ``connector``: properties of the worker, by Kafka Connect's names."""

    def __post_init__(self) -> None:
        self._run_connector()
        self.check_program(str(self.known))
        if self.name and (not NAME.fullmatch(self.name) or self.name in ROLES_OF_OURS):
            raise DeclarationError(
                f"stage: name {self.name!r}: use lower-case letters, digits and _; no name of "
                "lostack's own"
            )
        for name in self.failpoints:
            if not name or any(not (char.isalnum() or char in "-_") for char in name):
                raise DeclarationError(
                    f"failpoints: {name!r} is part of a cell's id: use letters, digits, - and _ "
                    "only"
                )
        self._check_refusals()
        self._check_scale()
        if self.role not in ROLES:
            raise DeclarationError(
                f"a stage cannot be a {self.role}: it is a {' or a '.join(ROLES)}"
            )
        choice("position", self.position, POSITIONS)
        choice("begins", self.begins, BEGINNINGS)
        choice("crash", self.crash, (STAGE, PROCESS))
        if self.image and self.crash == PROCESS:
            raise DeclarationError(
                f"crash: the {self.role} is a container, which dies as a whole: crash must be "
                f"{STAGE}"
            )

    @property
    def known(self) -> Role:
        """The stage's name on the wire and in histories: its declared name, or its role."""
        return Role(self.name) if self.name else self.role

    @property
    def reads(self) -> bool:
        """Whether the stage reads a topic."""
        return self.role in CONSUMING

    @property
    def one_dies(self) -> bool:
        """Whether a crash kills one process of several, and not the whole stage."""
        return self.crash == PROCESS or self.scale > 1

    @property
    def of_logs(self) -> str | None:
        """The first field of it that has no meaning on a queue."""
        fields = {
            "refusals": bool(self.refusals),
            "name": bool(self.name),
            "scale": self.scale > 1,
            "position": self.position != "group",
        }
        return next((name for name, said in fields.items() if said), None)

    def _run_connector(self) -> None:
        """Set the command of the worker that runs the connector, if it is one."""
        if not self.connector:
            if wrong := next((n for n in ("plugins", "worker") if getattr(self, n)), None):
                raise DeclarationError(f"{wrong}: has no meaning without connector: leave it out")
            return
        command = connector_command(self.connector, self.plugins, self.worker, str(self.known))
        if self.image or self.build or self.command not in ((), command):
            raise DeclarationError(
                f"connector: the {self.known} has a command or image, too: take away one of the two"
            )
        if self.role not in (Role.PRODUCER, Role.CONSUMER):
            raise DeclarationError(
                "connector: a connector is a producer (source) or a consumer (sink)"
            )
        object.__setattr__(self, "command", command)
        object.__setattr__(self, "ready", self.ready or RUNNING)

    def _check_scale(self) -> None:
        if not 1 <= self.scale <= MOST_MEMBERS:
            raise DeclarationError(
                f"scale: {self.scale} members of the {self.known}; write a number from 1 to "
                f"{MOST_MEMBERS}"
            )
        if self.scale == 1:
            return
        why = (
            "a producer has no group whose members share its records"
            if not self.reads
            else "it keeps its position elsewhere, so it has no group to share records in"
            if self.position != "group"
            else "it is a container, and lostack starts only one of it"
            if self.image
            else None
        )
        if why:
            raise DeclarationError(
                f"scale: the {self.known} cannot have {self.scale} members: {why}"
            )

    def _check_refusals(self) -> None:
        names = [Refusal.read(text).name for text in self.refusals]
        if len(names) > len(set(names)):
            raise DeclarationError(
                f"refusals: the {self.role} names a refusal twice: name each once"
            )
