"""What your own tests and programs import from lostack. Each name is loaded when it is first used,
so a program that calls :func:`failpoint` loads nothing else.

These names and their signatures stay (``tests/public``); everything below ``harness`` may change
with any release.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.failpoint import failpoint
    from harness.judge.verdict import Kind, Verdict
    from harness.model.failures import EnvironmentFailure
    from harness.model.semantics import Semantic
    from harness.pipelines import (
        DeclarationError,
        Input,
        Output,
        Pipeline,
        Stage,
        read_pipeline,
    )
    from harness.proxy.delivered import assert_delivered
    from harness.proxy.fault import NeverStruckError
    from harness.proxy.proxy import Proxy
    from harness.saved import CellResult, SavedRun, SavedRunError, load_run
    from lostack.checking import DryRunError, Kafka, attached_kafka, check

__all__ = [
    "CellResult",
    "DeclarationError",
    "DryRunError",
    "EnvironmentFailure",
    "Input",
    "Kafka",
    "Kind",
    "NeverStruckError",
    "Output",
    "Pipeline",
    "Proxy",
    "SavedRun",
    "SavedRunError",
    "Semantic",
    "Stage",
    "Verdict",
    "assert_delivered",
    "attached_kafka",
    "check",
    "failpoint",
    "load_run",
    "read_pipeline",
]
_WHERE = {
    "CellResult": "harness.saved",
    "DeclarationError": "harness.pipelines",
    "DryRunError": "lostack.checking",
    "EnvironmentFailure": "harness.model.failures",
    "Input": "harness.pipelines",
    "Kafka": "lostack.checking",
    "Kind": "harness.judge.verdict",
    "NeverStruckError": "harness.proxy.fault",
    "Output": "harness.pipelines",
    "Pipeline": "harness.pipelines",
    "Proxy": "harness.proxy.proxy",
    "SavedRun": "harness.saved",
    "SavedRunError": "harness.saved",
    "Semantic": "harness.model.semantics",
    "Stage": "harness.pipelines",
    "Verdict": "harness.judge.verdict",
    "assert_delivered": "harness.proxy.delivered",
    "attached_kafka": "lostack.checking",
    "check": "lostack.checking",
    "failpoint": "harness.failpoint",
    "load_run": "harness.saved",
    "read_pipeline": "harness.pipelines",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'lostack' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_WHERE[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
