"""The pages of scenarios: what each does, what theory predicts, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import registry
from harness.model.prediction import Zero
from harness.model.scenario import NotApplicable, Predicted, RefusedByClient
from harness.model.semantics import Semantic
from tests.docs.markdown import MADE, cell, columns, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.model.scenario import Expectation, Scenario

TITLES = {"streams": "Kafka Streams", "activemq": "ActiveMQ Classic", "artemis": "ActiveMQ Artemis"}
LEGEND = """\
*L* the record is lost, *D* it is duplicated; `target` is the record at which the fault strikes. **0** nothing is lost and nothing
is duplicated; behind it stands the sign that must be seen of the protection. ⚖ a control: it must be convicted of just that.
A dash: the semantic is not part of the scenario; n/a: the point cannot exist there, for the reason given.
"""  # noqa: E501


def systems() -> list[str]:
    """Return the names of the systems that have scenarios."""
    return list(dict.fromkeys(each.pipeline.system for each in registry.scenarios()))


def index() -> str:
    """Return the page that lists the others."""
    found = list(registry.scenarios())
    rows = columns("system", "scenarios", "pipelines")
    for system in systems():
        own = [each for each in found if each.pipeline.system == system]
        pipelines = ", ".join(
            f"`{name}`" for name in dict.fromkeys(str(each.pipeline) for each in own)
        )
        rows.append(f"| [{title(system)}](scenarios/{system}.md) | {len(own)} | {pipelines} |")
    return "\n".join(
        [
            "# Scenarios",
            "",
            MADE,
            *rows,
            "",
            "`lostack list` shows the same for a selection of cells.",
            "",
        ]
    )


def page(system: str) -> str:
    """Return the page of a system's scenarios."""
    own = [each for each in registry.scenarios() if each.pipeline.system == system]
    out = [f"# Scenarios of {title(system)}", "", MADE, LEGEND]
    for pipeline in dict.fromkeys(str(each.pipeline) for each in own):
        out += [f"## {pipeline}", "", *columns("scenario", *Semantic, "suite", "why")]
        out += [_row(each) for each in own if str(each.pipeline) == pipeline]
        out.append("")
    return "\n".join(out).rstrip() + "\n"


def title(system: str) -> str:
    """Return a system's name as people write it."""
    return TITLES.get(system, system.capitalize())


def _row(scenario: Scenario) -> str:
    name = f"`{scenario.id}`" + (
        f"<br>({scenario.failure_point})" if scenario.failure_point != scenario.id else ""
    )
    spots = [predicted(scenario.expect.get(semantic)) for semantic in Semantic]
    nowhere = dict.fromkeys(
        each.because for each in scenario.expect.values() if isinstance(each, NotApplicable)
    )
    why = " ".join((scenario.because, *_sentences("n/a", nowhere)))
    return f"| {name} | {' | '.join(spots)} | {scenario.suite} | {cell(plain(why))} |"


def _sentences(head: str, reasons: Iterable[str]) -> list[str]:
    return [f"*{head}: {why}.*" for why in reasons]


def predicted(expectation: Expectation | None) -> str:
    """Return what theory says, in a few words."""
    match expectation:
        case None:
            return "-"
        case NotApplicable():
            return "n/a"
        case RefusedByClient():
            return "refused by the client"
        case Predicted():
            shown = [
                f"*{letter}* {prediction.text()}"
                for letter, prediction in (("L", expectation.lost), ("D", expectation.duplicated))
                if not isinstance(prediction, Zero)
            ]
            shown += [f"left: {expectation.left.text()}"] if expectation.left.must_show() else []
            shown += [f"stops: {expectation.stops}"] if expectation.stops else []
            text = "; ".join(shown) or "**0**"
            sign = f" ({expectation.sign})" if expectation.sign else ""
            return cell(f"{text}{sign}{' ⚖' if expectation.control else ''}")
