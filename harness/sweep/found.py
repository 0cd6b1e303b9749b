"""A finding as a file: an ordinary scenario, that ``lostack run --scenario FILE`` runs, and pytest
collects.

::

    schema = 1
    name = "late-commit"
    because = "..."
    pipeline = "plain/exactly-once"        # or, of a pipeline of one's own: declaration =
        "../pipeline.toml"
    client = "kafka-python"
    seed = 1
    records = 12
    position = 2                           # of the record that the fault is at

    [fault]
    act = "late-next-kill"
    at = {role = "producer", api = "EndTxn", direction = "request"}
    into = {role = "producer", api = "Produce", direction = "response", offset = 1}

    [then]                                 # what happens to the recovery, where something does
    act = "lose"
    at = {...}
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from harness.faults import Twice
from harness.model import safe_files
from harness.model.failures import UsageError
from harness.model.plain import check_fields, made
from harness.sweep.acts import Happening
from harness.sweep.cells import with_fault
from harness.sweep.triggers import frame_read, inline, trigger_read
from harness.wire.rules import RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.model.cell import Cell

SCHEMA = 1
LONGEST = 80
"""Maximum length of a file's name, in characters, without its suffix."""


@dataclass(frozen=True, slots=True)
class FoundScenario:
    """The content of a scenario file. ``partitions``, ``consumers``: how many there are (0: as many
    as the pipeline says).
    """

    name: str
    because: str
    seed: int
    records: int
    position: int
    fault: Happening
    then: Happening | None = None
    pipeline: str = ""
    declaration: str = ""
    """The declaration's file, relative to the scenario file's folder."""
    client: str = ""
    system: str = ""
    like: str = ""
    """The scenario of lostack whose settings it uses."""
    partitions: int = 0
    consumers: int = 0
    signature: str = ""
    """The outcome in the run that found it, in words."""
    came_back: int = 0
    """In how many of the ``tried`` runs the finding came back."""
    tried: int = 0
    """How often the scenario was run again; 0: the time was over before."""
    without: tuple[str, ...] = ()
    """What was left out of the scenario that found it."""
    schema: int = SCHEMA
    file: Path = field(default=Path(), compare=False)

    def cell(self, base: Cell, name: str = "") -> Cell:
        """Return its cell; ``base``: the pipeline's without a fault, of this seed and as many
        records.
        """
        happens = self.fault.fault()
        fault = happens if self.then is None else Twice(happens, self.then.fault())
        return with_fault(base, name or self.name, fault, self.because, self.position)

    def save(self, below: Path, name: str) -> Path:
        """Write the scenario file into a folder, whole or not at all. Fields with default values
        are left out.
        """
        file = below / name
        file.parent.mkdir(parents=True, exist_ok=True)
        safe_files.write_whole(below, name, self.text(file.parent))
        return file

    def text(self, folder: Path) -> str:
        """Return it as TOML, as it stands in a file of a folder."""
        declared = os.path.relpath(self.declaration, folder) if self.declaration else ""
        said = {
            each.name: getattr(self, each.name)
            for each in dataclasses.fields(self)
            if each.name not in _TABLES | {"file"}
        }
        plain = {"schema": said.pop("schema")} | said | {"declaration": declared}
        lines = [
            f"{name} = {json.dumps(value, ensure_ascii=False)}"
            for name, value in plain.items()
            if value not in ("", 0, ())
        ]
        for table in ("fault", "then"):
            happens: Happening | None = getattr(self, table)
            if happens is not None:
                lines += [
                    "",
                    f"[{table}]",
                    f"act = {json.dumps(happens.act)}",
                    f"at = {inline(happens.at)}",
                ]
                lines += [] if happens.into is None else [f"into = {inline(happens.into)}"]
        return "\n".join(lines) + "\n"

    @property
    def again(self) -> str:
        """How often it came back, in words."""
        return (
            f"came back {self.came_back} of {self.tried} times"
            if self.tried
            else "was not run again: the time was over"
        )

    @staticmethod
    def load(file: Path, below: Path | None = None) -> FoundScenario:
        """Read a file that the user has named, or one ``below`` a folder of somebody else's,
        without following links.

        Raises:
            UsageError: it is no such file; one line that names it.
        """
        try:
            data = (
                safe_files.read_named(file)
                if below is None
                else safe_files.read_bytes(below, file.relative_to(below))
            )
            return FoundScenario._from_plain(safe_files.parse_toml(data.decode()), file)
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file} is not valid TOML: {error}") from error
        except (TypeError, ValueError, KeyError, AttributeError, RuleError) as error:
            raise UsageError(f"{file} is not a valid scenario: {error}") from error

    @staticmethod
    def _from_plain(plain: dict[str, Any], file: Path) -> FoundScenario:
        if plain.get("schema", SCHEMA) > SCHEMA:
            raise ValueError(
                f"it was written by a newer lostack (schema {plain['schema']}); upgrade to read it"
            )
        check_fields(FoundScenario, plain, hidden={"file"})
        hints = get_type_hints(FoundScenario)
        said: dict[str, Any] = {
            name: _happening(value) if name in _TABLES else made(hints[name], value, name)
            for name, value in plain.items()
        }
        found = FoundScenario(**{**said, "file": file})
        if bool(found.pipeline) == bool(found.declaration):
            raise ValueError("give either pipeline or declaration")
        if not 1 <= found.position <= found.records:
            raise ValueError(f"position {found.position} is outside 1 to {found.records}")
        found.fault.fault()
        if found.then is not None:
            Twice(found.fault.fault(), found.then.fault())
        declared = str(file.parent / found.declaration) if found.declaration else ""
        return dataclasses.replace(found, declaration=declared)


_TABLES = {"fault", "then"}


def _happening(plain: Mapping[str, Any]) -> Happening:
    return Happening(
        plain["act"],
        trigger_read(plain["at"]),
        None if "into" not in plain else frame_read(plain["into"]),
    )


def slug(text: str) -> str:
    """Return a name that a file can have; what is long ends in a digest, so that no two share a
    name.

    >>> slug("producer.EndTxn.request.k1-3+late-next (again)")
    'producer-EndTxn-request-k1-3-late-next-again'
    """
    whole = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
    return (
        whole
        if len(whole) <= LONGEST
        else f"{whole[: LONGEST - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    )
