"""``report.html``: one page that works offline and prints; nothing in it comes from anywhere but the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from harness.core.semantics import Semantic
from harness.report.as_json import cell_row
from harness.report.as_markdown import spot_text
from harness.report.escaping import visible
from harness.report.matrix import tables
from harness.report.renderer import HOW_WE_COUNT, Renderer, facts
from harness.report.summary import GREEN, SIGNS, summarise

if TYPE_CHECKING:
    from harness.saved import SavedRun

TEMPLATES = Path(__file__).parent / "templates"
COUNTS = (
    "offered", "acked", "refused", "unknown", "stored", "recorded", "lost", "duplicated", "stored_twice",
    "delivered_twice", "absorbed", "aborted", "phantom", "resurrected", "torn", "reordered", "left_in_source",
    "left_in_topic", "stalled",
)  # fmt: skip


def render(run: SavedRun) -> str:
    """Return the report as HTML."""
    template = _environment().get_template("report.html.j2")
    return template.render(
        summary=summarise(run), facts=facts(run.info), tables=tables(run), semantics=list(Semantic), counts=COUNTS,
        cells=[cell_row(result) for result in run.results], missing=run.missing, how_we_count=HOW_WE_COUNT,
        not_applicable=run.info.not_applicable, signs={str(name): sign for name, sign in SIGNS.items()},
        green={str(name) for name in GREEN}, spot_text=spot_text,
    ) + "\n"  # fmt: skip


def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"), autoescape=True, undefined=StrictUndefined,
        finalize=_seen, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def _seen(value: object) -> object:
    return visible(value) if type(value) is str else value  # safe markup is a subclass, and our own


RENDERER = Renderer("html", "report.html", render)
