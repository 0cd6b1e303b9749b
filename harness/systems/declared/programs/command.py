"""The command of a stage or service, and what it is given: values, environment, folders."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness import failpoint
from harness.pipelines.braces import fill
from harness.pipelines.connectors import Connector
from harness.pipelines.refusing import DeclarationError
from harness.pipelines.stages import Stage
from harness.runtimes.interface import ContainerSpec, NodeSpec
from harness.systems.declared.programs import several

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.scenario import Role
    from harness.pipelines.programs import Service


@dataclass(frozen=True)
class StageCommand:
    """What is started for one stage or service of a cell."""

    stage: Stage | Service
    values: Mapping[str, object]
    """The values of the names in braces."""
    directory: Path
    log: Path
    failpoints: Path
    stdin: bool = False
    path: str | None = None
    """The PATH of the command and of what it starts; ``None``: lostack's own."""
    members: int = 1
    """How many members are started at first, if the stage may have several (``scale``)."""
    prints: bool = False
    """Whether what it prints is the output. If so, its output buffer stays on, and a crash may lose
    it.
    """

    @property
    def role(self) -> Role:
        """Its role in histories: the role, or the stage's name if several stages share the role."""
        return self.stage.known

    @property
    def name(self) -> str:
        """Its name, which no other stage of the run has."""
        return str(self.stage.known)

    @property
    def work(self) -> str:
        """The folder that is ``{work}`` in a declaration."""
        return str(self.values["work"])

    @property
    def ports(self) -> set[int]:
        """The ports at which the wire listens for this stage."""
        brokers = (at.rpartition(":")[2] for at in str(self.values["bootstrap"]).split(",") if at)
        services = (at for name, at in self.values.items() if name.endswith(".port"))
        return {int(str(port)) for port in (*brokers, *services)}

    def spec(self, cell_key: str) -> NodeSpec:
        """Return what the runtime starts in a cell."""
        bootstrap = str(self.values["bootstrap"])
        return NodeSpec(
            name=f"{cell_key}-{self.name}",
            role=self.name,
            log=self.log,
            stdin_pipe=self.stdin or self.scaled,
            foreign=True,
            temporary=cell_key,
            cwd=None if self.stage.image else self.directory,
            container=self._container(),
            argv=self._argv(),
            env={
                "BOOTSTRAP_SERVERS": bootstrap,
                "KAFKA_BOOTSTRAP_SERVERS": bootstrap,
                "PYTHONUNBUFFERED": "" if self.prints else "1",  # empty counts as not set
                "LOSTACK_WORK": self.work,
                failpoint.VARIABLE: str(self.failpoints),
                **({"PATH": self.path} if self.path and not self.stage.image else {}),
                **{
                    name: fill(value, self.values) for name, value in self.stage.environment.items()
                },
            },
        )

    @property
    def scaled(self) -> bool:
        """Whether lostack starts several members of the stage."""
        return isinstance(self.stage, Stage) and self.stage.scale > 1

    @property
    def sharing(self) -> int:
        """How many of its members share the records: of the workers of a connector no more than it
        may have tasks.
        """
        if isinstance(self.stage, Stage) and self.stage.connector:
            file = self.directory / fill(self.stage.connector, self.values)
            with suppress(DeclarationError):  # who runs it says what is wrong
                return min(self.members, Connector.read(file).tasks)
        return self.members

    @property
    def one_dies(self) -> bool:
        """Whether a crash kills one of its processes, and not all of it."""
        return isinstance(self.stage, Stage) and self.stage.one_dies

    def _argv(self) -> tuple[str, ...]:
        words = tuple(fill(word, self.values) for word in self.stage.command)
        if not self.scaled:
            return words
        settings = (f"{self.stage.down_s:g}", str(int(self.stage.restart)), str(self.members))
        return (sys.executable, "-I", "-S", several.__file__, *settings, *words)

    def _container(self) -> ContainerSpec:
        """Return the container: its image, and every folder that the command may name, mounted at
        the same path.
        """
        folders = (
            self.failpoints,
            *(
                value
                for value in self.values.values()
                if isinstance(value, Path) and value.is_dir()
            ),
            *(
                value.parent
                for name, value in self.values.items()
                if name == "ca" and isinstance(value, Path)
            ),
        )
        image = self.stage.image_in(self.directory)
        return ContainerSpec(image=image, folders=folders, host_network=True)
