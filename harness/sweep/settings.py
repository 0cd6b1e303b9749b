"""What a sweep was asked for: its settings, as ``sweep.json`` keeps them."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.model import safe_files
from harness.model.failures import UsageError
from harness.model.plain import made
from harness.saved import ASIDE, SWEEP_FILE

if TYPE_CHECKING:
    from pathlib import Path

DRY, POINTS, BESIDE, FOUND = "dry", "points", "beside", "found"
"""The folders of a sweep: runs without a fault, the points, cells that shrink or confirm findings,
findings as scenarios.
"""
SCHEMA = 3
OTHER_ORDER = 3
"""Since this schema the points have another order, and so a part of a sweep has other points."""
DEPTHS = (1, 2)
"""How many faults a point may have at most."""


@dataclass(frozen=True, slots=True)
class SweepSettings:
    """The settings of a sweep, as ``sweep.json`` keeps them. ``shard``: which part of the points
    (from 1), of how many.
    """

    what: str
    """Which pipeline is swept: one of lostack's own with its semantic (``plain/exactly-once``), or
    a declaration's file.
    """
    client: str
    seed: int
    records: int
    jobs: int
    shard: tuple[int, int]
    command: str
    declared: bool = False
    system: str = ""
    like: str = ""
    """The scenario whose settings are used; empty: those of the pipeline's recipe for
    the semantic.
    """
    depth: int = 1
    """How many faults a point has at most. With 2, a second fault strikes during the recovery from
    the first.
    """
    acts: tuple[str, ...] = ()
    """Which acts are tried, by name or prefix (``kill``, ``refuse``); empty: all."""
    schema: int = SCHEMA

    def save(self, directory: Path) -> None:
        """Write ``sweep.json``, whole or not at all."""
        directory.mkdir(parents=True, exist_ok=True)
        safe_files.write_whole(
            directory, SWEEP_FILE, json.dumps(dataclasses.asdict(self), indent=1)
        )

    @staticmethod
    def load(directory: Path) -> SweepSettings:
        """Read ``sweep.json``.

        Raises:
            UsageError: the folder holds no sweep, one of a newer lostack, or a part of one of an
                older lostack.
        """
        file = directory / SWEEP_FILE
        for name in (DRY, POINTS, BESIDE, FOUND, ASIDE):
            safe_files.check_plain(directory, name)
        try:
            plain = safe_files.read_json(directory, SWEEP_FILE)
            if plain["schema"] > SCHEMA:
                raise UsageError(
                    f"{file} was written by a newer lostack (schema {plain['schema']}); upgrade "
                    "to read it"
                )
            if plain["schema"] < OTHER_ORDER and plain["shard"] != [1, 1]:
                raise UsageError(
                    f"{file} is a part of a sweep of an older lostack, whose parts have other "
                    "points: begin it anew"
                )
            return SweepSettings._from_plain(plain)
        except OSError as error:
            raise UsageError(
                f"{directory} is not the folder of a sweep, which lostack sweep prints: cannot "
                f"read {file.name}: {error.strerror}"
            ) from error
        except (ValueError, TypeError) as error:
            raise UsageError(f"{file} is damaged ({error}): begin a new sweep") from error
        except KeyError as error:
            raise UsageError(
                f"{file} is damaged (it lacks {error.args[0]}): begin a new sweep"
            ) from error

    @staticmethod
    def _from_plain(plain: dict[str, Any]) -> SweepSettings:
        """Raises ``KeyError``, ``TypeError`` or ``ValueError`` where it is none."""
        asked = made(SweepSettings, plain)
        part, parts = asked.shard
        if not 1 <= part <= parts or asked.depth not in DEPTHS or asked.jobs < 1:
            raise ValueError(
                f"shard {part} of {parts}, depth {asked.depth} or jobs {asked.jobs} is not possible"
            )
        return asked
