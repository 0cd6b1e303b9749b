"""The plugin that loads a mutation into a session: here, or, where it is the wire's, into every
wire that it starts.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.mutations.registry import WIRE, asked_for

SITE = Path(__file__).with_name("site")
"""A folder for ``PYTHONPATH``: Python imports ``sitecustomize`` of it before anything else."""


def pytest_configure() -> None:
    """Break what is to be broken, before any test is."""
    mutation = asked_for()
    if mutation is None:
        return
    if mutation.name.startswith(f"{WIRE}."):
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(SITE), os.environ.get("PYTHONPATH")))
        )
    else:
        mutation.apply()


def pytest_report_header() -> str:
    """Say what is broken."""
    mutation = asked_for()
    return f"mutation: {mutation.name}: {mutation.breaks}" if mutation else "mutation: none"
