"""The sweep: a fault at every step of a run, and what came of each."""

from __future__ import annotations

from typing import Final

SUFFIX: Final = ".lostack.toml"
"""How the name of a scenario file ends that pytest collects."""
