"""``anomalies.jsonl``: the path of every lost and every duplicated record, one JSON line each; the
page shows the first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from harness.report.page.detail import path_rows
from harness.report.renderer import Renderer

if TYPE_CHECKING:
    from harness.saved import SavedRun

FILE = "anomalies.jsonl"


def render(run: SavedRun) -> str:
    """Return one line per record (ASCII only); the text is empty if no record was lost or
    duplicated.
    """
    return "".join(f"{json.dumps(row)}\n" for result in run.results for row in path_rows(result))


RENDERER = Renderer("anomalies", FILE, render)
