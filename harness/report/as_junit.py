"""``junit.xml``: one test case per cell, for CI servers. A skipped test case is a cell that does
not apply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from harness.model.semantics import Anomaly
from harness.report.escaping import visible
from harness.report.renderer import Renderer, facts
from harness.report.summary import GREEN, outcome, rerun_line, summarise

if TYPE_CHECKING:
    from harness.saved import CellResult, NotRun, SavedRun


def render(run: SavedRun) -> str:
    """Return the report as JUnit XML; characters that XML does not allow are shown as numbers."""
    info = run.info
    suite = _element(
        "testsuite",
        None,
        name=f"lostack {info.id}",
        timestamp=info.started,
        time=f"{info.seconds:.3f}",
    )
    _properties(suite, facts(info) | {"summary": summarise(run).sentence})
    for result in run.results:
        _cell(suite, result)
    for cell in run.missing:
        _tell(_case(suite, "missing", cell, 0.0), "error", "PARTIAL: this planned cell never began")
    for row in info.not_applicable:
        _not_applicable(suite, row)
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    suites = ET.Element("testsuites", dict(suite.attrib))
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=False) + "\n"


def _cell(suite: ET.Element, result: CellResult) -> None:
    plan, verdict = result.plan, result.verdict
    case = _case(suite, plan.pipeline, plan.id, result.seconds)
    words = {
        "verdict": str(verdict.kind),
        "outcome": str(outcome(verdict)),
        "reason": verdict.reason,
        "seed": str(plan.seed),
        "target": ", ".join(plan.struck),
        "fired": str(verdict.fired),
        "control": str(plan.control).lower(),
        "predicted_lost": plan.predicted(Anomaly.LOST),
        "predicted_duplicated": plan.predicted(Anomaly.DUPLICATED),
    }
    _properties(
        case, words | {name: str(count) for name, count in result.judgement.account.counts.items()}
    )
    if outcome(verdict) not in GREEN:
        text = f"{plan.because}\nagain: {rerun_line(plan)}"
        _tell(case, "failure", f"{verdict.label}: {verdict.reason}", text)


def _not_applicable(suite: ET.Element, row: NotRun) -> None:
    _tell(_case(suite, row.pipeline, row.id, 0.0), "skipped", f"n/a: {row.because}")


def _case(suite: ET.Element, group: str, name: str, seconds: float) -> ET.Element:
    return _element(
        "testcase", suite, classname=f"lostack.{group}", name=name, time=f"{seconds:.3f}"
    )


def _tell(case: ET.Element, tag: str, message: str, text: str = "") -> None:
    _element(tag, case, message=message).text = (
        "\n".join(visible(line) for line in text.split("\n")) or None
    )


def _properties(parent: ET.Element, words: dict[str, str]) -> None:
    properties = _element("properties", parent)
    for name, value in words.items():
        _element("property", properties, name=name, value=value)


def _element(tag: str, parent: ET.Element | None, **attributes: str) -> ET.Element:
    safe = {name: visible(value) for name, value in attributes.items()}
    return ET.Element(tag, safe) if parent is None else ET.SubElement(parent, tag, safe)


RENDERER = Renderer("junit", "junit.xml", render)
