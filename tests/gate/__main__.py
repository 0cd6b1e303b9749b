"""Writes an archive of saved runs: ``python -m tests.gate NAME RUN ...``."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.saved import SavedRunError
from tests.gate.saved import GateError, save

if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python -m tests.gate NAME RUN ...")
    try:
        written = save(sys.argv[1], [Path(each) for each in sys.argv[2:]])
    except (GateError, SavedRunError) as error:
        sys.exit(str(error))
    sys.stdout.write(f"{written}: {written.stat().st_size:,} bytes\n")
