# ruff: noqa: INP001 - no package of modules: pytest reads it by its path
"""Tests of the packages have the tiers of lostack's own, also where they run alone."""

from __future__ import annotations

pytest_plugins = ("tests.tiers",)
