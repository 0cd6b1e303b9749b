"""Users' own pipelines: declared in a TOML file, run unchanged with the wire in front of the
broker, judged by their results.
"""

from __future__ import annotations

from harness.pipelines.cells import DeclaredCell
from harness.pipelines.declaration import Pipeline
from harness.pipelines.failure_points import failure_points
from harness.pipelines.inputs import Input
from harness.pipelines.outputs import Output
from harness.pipelines.reading import read_pipeline
from harness.pipelines.refusing import DeclarationError
from harness.pipelines.stages import Stage

__all__ = [
    "DeclarationError",
    "DeclaredCell",
    "Input",
    "Output",
    "Pipeline",
    "Stage",
    "failure_points",
    "read_pipeline",
]
