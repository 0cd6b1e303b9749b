"""What kafka-python compiles at the first message is compiled before programs are forked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.stages.clients import PRELOADS

WITHIN_S = 60.0
ROOT = Path(__file__).parents[2]
PROGRAM = """
import builtins, importlib, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
from kafka.protocol import consumer, metadata, producer

def refused(*told):
    raise SystemExit(f"{told[1]} is compiled by each program")

builtins.compile = refused
for request in (producer.ProduceRequest, consumer.FetchRequest, metadata.MetadataRequest):
    request(version=request.max_version).encode()
for answer in (producer.EndTxnResponse, consumer.SyncGroupResponse):
    answer.decode(answer(version=answer.max_version).encode(), version=answer.max_version)
"""


def said(*modules: str) -> str:
    """Return what a program has to say that first imports these modules."""
    argv = (sys.executable, "-c", PROGRAM, *modules)
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    return done.stderr.strip()


def test_a_forked_program_compiles_no_message() -> None:
    """Without the last but one of the modules, the first request would be compiled."""
    *before, codecs, _ = modules = PRELOADS["kafka-python"]
    assert codecs.endswith("_codecs")
    assert said(*modules) == ""
    assert said(*before).startswith("<codegen:produce_request_")
