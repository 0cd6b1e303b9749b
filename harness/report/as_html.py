"""``report.html``: one page that works offline and can be printed; all its data comes
from the run.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.judge.evidence import evidence_of
from harness.latest import is_marked
from harness.model import safe_files
from harness.model.semantics import Semantic
from harness.report.advising import mending
from harness.report.as_anomalies import FILE as ANOMALIES
from harness.report.breaks import HISTORY_FILE
from harness.report.costs import LEGEND, costs
from harness.report.coverage import LEGEND as COVERAGE_LEGEND
from harness.report.coverage import coverage, groups
from harness.report.escaping import visible
from harness.report.headline import cells_not_green, headline, seal
from harness.report.own import labels_of, own_facts
from harness.report.page.detail import first_seen
from harness.report.page.model import page_of
from harness.report.page.opening import never_reached, not_applicable, proved, story
from harness.report.page.usual import MARKED
from harness.report.renderer import HOW_WE_COUNT, Renderer, facts, not_tested
from harness.report.summary import SIGNS, is_own, outcome, summarise

if TYPE_CHECKING:
    from harness.saved import SavedRun

TEMPLATES = Path(__file__).parent / "templates"
INDEX, TREND = "index.html", "trend.html"
"""The pages beside the runs: the list of all runs, and what broke when."""
MOST_TOLD, PLOTTED = 50, 3
"""How many red cells the page describes at its top, and of how many of these it shows the plot."""


def render(run: SavedRun) -> str:
    """Return the report as HTML."""
    page = page_of(run)
    summary = summarise(run)
    red = cells_not_green(run)
    own = is_own(run)
    names = {
        id(result): name
        for result, *name in zip(run.results, page.anchors, labels_of(run), strict=True)
    }
    return render_template(
        "report.html.j2",
        summary=summary,
        headline=headline(run),
        seal=seal(run),
        beside=_beside(run),
        seen=first_seen,
        marked=MARKED,
        facts=own_facts(run) | facts(run.info),
        page=page,
        own=own,
        mends=lambda result: mending(result) or "",
        semantics=list(Semantic),
        signs={str(name): sign for name, sign in SIGNS.items()},
        found={outcome(result.verdict) for result in run.results},
        red=[
            (*names[id(result)], str(outcome(result.verdict)), result) for result in red[:MOST_TOLD]
        ],
        red_more=max(len(red) - MOST_TOLD, 0),
        story=story,
        compared=run.compared,
        evidence=lambda result: list(evidence_of(result.judgement)),
        plotted=PLOTTED,
        proved=proved(run),
        never=[names[id(result)] for result in run.results if never_reached(result)],
        missing=run.missing,
        how_we_count=HOW_WE_COUNT[:-1] if own else HOW_WE_COUNT,
        costs=costs(run),
        costs_legend=LEGEND,
        coverage=groups(coverage(run)),
        coverage_legend=COVERAGE_LEGEND,
        anchor_of={
            result.plan.id: anchor for result, anchor in zip(run.results, page.anchors, strict=True)
        },
        not_tested=not_tested(run),
        not_applicable=not_applicable(run),
        anomalies=ANOMALIES,
    )


def _beside(run: SavedRun) -> list[tuple[str, str]]:
    """Return the pages beside a run that lead to other runs, as (address, words).

    Only a folder into which lostack writes runs has them.
    """
    reports = run.directory.parent
    if not is_marked(reports):
        return []
    trend = any(safe_files.is_file(reports, name) for name in (TREND, HISTORY_FILE))
    return [(f"../{INDEX}", "all runs"), *([(f"../{TREND}", "what broke when")] if trend else [])]


def render_template(name: str, **words: object) -> str:
    """Fill a template. Text is escaped and made visible; scripts and styles are lostack's own, and
    named by their checksums.
    """
    script, style = _own("page.js"), _own("page.css")
    sums = {"script_sum": _sum(script), "style_sum": _sum(style)}
    return (
        _environment()
        .get_template(name)
        .render(script=script, style=style, **sums, raw=Markup, **words)
        + "\n"
    )


@cache
def _environment() -> Environment:
    """Return what the templates are filled by: each is compiled once."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_seen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["css_class"] = lambda text: str(text).replace(" ", "-")
    return environment


def _own(name: str) -> Markup:
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))  # noqa: S704 - our own file


def _sum(text: str) -> str:
    """Return the checksum by which a content security policy permits a text."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _seen(value: object) -> object:
    return visible(value) if type(value) is str else value  # safe markup is a subclass, and our own


RENDERER = Renderer("html", "report.html", render)
