"""The sweep: a fault at every step of a run, and the outcome of each."""

from __future__ import annotations

from typing import Final

SUFFIX: Final = ".lostack.toml"
"""The suffix of scenario files that pytest collects."""
