"""The reports: complete, exact, and harmless whatever stands in a record id or a log line."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import jsonschema
import pytest
from markdown_it import MarkdownIt

import harness.report
from harness.judge.verdict import Kind, Verdict
from harness.model.exits import ExitCode
from harness.report.escaping import code, markdown, visible
from harness.report.matrix import tables
from harness.report.page.detail import COUNTED, Shared, detail_of
from harness.report.page.model import unfold
from harness.report.renderers import RENDERERS
from harness.report.summary import rerun_line, summarise
from tests.report.hostile import (
    ACK_LOST,
    ALO,
    AMO,
    EOS,
    NASTY,
    NASTY_ID,
    NONE,
    green_run,
    hostile_run,
    result,
    run_of,
)
from tests.report.own import count_without, own_run

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

SCHEMA = json.loads(
    Path(harness.report.__file__).with_name("schema.json").read_text(encoding="utf-8")
)
RUNS = {"green": green_run, "hostile": hostile_run}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("form", RENDERERS)
def test_reports_look_as_they_did(snapshot: SnapshotAssertion, form: str, run: str) -> None:
    assert _without_own(RENDERERS[form].render(RUNS[run]())) == snapshot


def _without_own(text: str) -> str:
    """Leave out the page's own script and style, and their sums, which are not made from the run;
    unfold what is folded.
    """
    text = re.sub(
        r'(octet-stream" id="d[0-9]+">)([A-Za-z0-9+/=]+)',
        lambda found: found[1] + json.dumps(unfold(found[2])),
        text,
    )
    text = re.sub(r"(<style>|<script>).*?(</style>|</script>)", r"\1\2", text, flags=re.DOTALL)
    return re.sub(r"sha256-[A-Za-z0-9+/=]+", "sha256-", text)


@pytest.mark.parametrize("form", RENDERERS)
def test_renderers_are_pure(form: str) -> None:
    """The same run gives the same report, byte for byte, and text that every file system and
    terminal can hold.
    """
    text = RENDERERS[form].render(hostile_run())
    assert text == RENDERERS[form].render(hostile_run())
    assert text.endswith("\n") or not text
    assert not [
        char for char in text.encode("utf-8").decode() if char != "\n" and not char.isprintable()
    ]


@pytest.mark.parametrize("run", RUNS)
def test_the_json_report_has_the_published_form(run: str) -> None:
    """``report.json`` validates against ``schema.json``, which allows nothing it does not name."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    report = json.loads(RENDERERS["json"].render(RUNS[run]()))
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    report["cells"][0]["lost"] = -1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(report)


def test_every_record_that_is_struck_in_turn_is_named() -> None:
    """In ``report.json``, ``junit.xml``, and where the page opens the cell."""
    cell = result(NONE, EOS, Verdict(Kind.KEPT, "24 of 24 recorded"))
    first, second = cell.plan.target, "k2-9"
    plan = replace(cell.plan, targets=(first, second))
    cell = replace(cell, judgement=replace(cell.judgement, plan=plan))
    [row] = json.loads(RENDERERS["json"].render(run_of(cell)))["cells"]
    assert row["targets"] == [first, second]
    suites = ET.fromstring(RENDERERS["junit"].render(run_of(cell)))
    told = [each.get("value") for each in suites.iter("property") if each.get("name") == "target"]
    assert told == [f"{first}, {second}"]
    assert detail_of(cell, Shared())[0]["targets"] == [first, second]


def test_every_cell_is_counted_once() -> None:
    """The outcomes add up to what ran, and what ran and what is missing to what was planned."""
    summary = summarise(hostile_run())
    outcomes = (
        summary.kept,
        summary.broken,
        summary.convicted,
        summary.not_convicted,
        summary.void,
        summary.stuck,
    )
    assert outcomes == (6, 1, 1, 1, 2, 1)
    assert sum(outcomes) == summary.ran == summary.planned - 1
    assert summary.partial
    assert summary.sentence.startswith("PARTIAL: ")


KEPT = Verdict(Kind.KEPT, "kept")
CODES = {
    "kept": ([KEPT], ExitCode.KEPT),
    "convicted": ([KEPT, Verdict(Kind.BROKEN, "as predicted", control=True)], ExitCode.KEPT),
    "broken": ([KEPT, Verdict(Kind.BROKEN, "lost")], ExitCode.BROKEN),
    "not convicted": ([Verdict(Kind.KEPT, "nothing", control=True)], ExitCode.BROKEN),
    "convicted of something else": (
        [Verdict(Kind.BROKEN, "x", control=True, as_predicted=False)],
        ExitCode.BROKEN,
    ),
    "void": ([KEPT, Verdict(Kind.VOID, "did not fire")], ExitCode.VOID),
    "void control": ([Verdict(Kind.VOID, "did not fire", control=True)], ExitCode.VOID),
    "stuck": ([KEPT, Verdict(Kind.STUCK, "no progress")], ExitCode.VOID),
    "broken beats void": ([Verdict(Kind.VOID, "x"), Verdict(Kind.BROKEN, "lost")], ExitCode.BROKEN),
    "nothing": ([], ExitCode.VOID),
}


@pytest.mark.parametrize("case", CODES)
def test_the_exit_code_says_the_worst(case: str) -> None:
    """Green is only a run in which every cell is green; a broken promise beats a void run; no cells
    are no success.
    """
    verdicts, want = CODES[case]
    results = [result(NONE, EOS, verdict, seed=seed) for seed, verdict in enumerate(verdicts)]
    summary = summarise(run_of(*results))
    assert summary.exit_code is want
    assert summary.green is (want is ExitCode.KEPT)


def test_a_partial_run_is_never_green() -> None:
    """A cell that never began, a run cut short, and a cell that nobody planned are not
    overlooked.
    """
    one = result(NONE, EOS, KEPT)
    for run, want in (
        (run_of(one, missing=("kafka/x",)), ExitCode.VOID),
        (run_of(one, complete=False, interrupted=True), ExitCode.INTERRUPTED),
        (run_of(one, complete=False), ExitCode.VOID),  # killed: nobody has interrupted it
        (run_of(replace(one, ended=False)), ExitCode.VOID),
        (replace(run_of(one), results=(one, one)), ExitCode.VOID),
        (replace(run_of(one), results=()), ExitCode.VOID),
    ):
        assert summarise(run).partial
        assert not summarise(run).green
        assert summarise(run).exit_code is want
        assert "PARTIAL" in RENDERERS["markdown"].render(run)
        assert "PARTIAL" in RENDERERS["html"].render(run)
        assert "PARTIAL" in RENDERERS["junit"].render(run)


def test_who_was_kept_and_shows_no_effect_is_counted() -> None:
    """It is green, and the summary says how many of the kept there are of it."""
    summary = summarise(
        run_of(result(NONE, EOS, KEPT), result(NONE, EOS, replace(KEPT, effect=False), seed=2))
    )
    assert summary.exit_code == ExitCode.KEPT
    assert summary.sentence.startswith("2 kept (1 with no effect seen), 0 broken")
    assert summary.row()["no_effect"] == 1


def test_a_stage_that_nobody_kills_is_not_tried() -> None:
    """Everything that was run was kept, and yet nobody knows: it is counted, said among what was
    not tested, and not green.
    """
    said = "The consumer is not tried: no failure point kills it."
    run = run_of(result(NONE, EOS, KEPT))
    assert summarise(run).green
    run = replace(run, info=replace(run.info, untried=(said,)))
    summary = summarise(run)
    assert summary.exit_code == ExitCode.VOID
    assert summary.sentence.endswith("; 1 stage not tried")
    assert said in RENDERERS["markdown"].render(run)
    assert summary.row()["untried"] == 1


@pytest.mark.parametrize("form", ["json", "markdown", "html"])
def test_what_a_cell_is_compared_with_stands_beside_that_cell(form: str) -> None:
    """Once, in the cell that it is of; one that is judged otherwise by now has no such words."""
    said = "the fault struck at frame 7 of 9"
    kept, broken = result(NONE, EOS, KEPT), result(ACK_LOST, EOS, Verdict(Kind.BROKEN, "lost"))
    run = run_of(kept, broken)
    assert said not in RENDERERS[form].render(run)
    info = replace(run.info, compared=dict.fromkeys((kept.plan.id, broken.plan.id), (said,)))
    text = RENDERERS[form].render(replace(run, info=info))
    assert text.count(said) == 1
    if form == "json":
        cells = json.loads(text)["cells"]
        assert [cell["compared"] for cell in cells] == [[], [said]]


def test_an_interrupted_run_says_so_whatever_it_found() -> None:
    """Judging an interrupted run again exits as the run did, and what was found broken by then
    still stands in it.
    """
    summary = summarise(
        run_of(result(NONE, EOS, Verdict(Kind.BROKEN, "lost")), complete=False, interrupted=True)
    )
    assert (summary.exit_code, summary.broken, summary.interrupted) == (
        ExitCode.INTERRUPTED,
        1,
        True,
    )


def test_what_was_cut_short_has_not_run() -> None:
    """A cell under way when its run ended is void, and planned is not ran."""
    cut = replace(result(ACK_LOST, EOS, Verdict(Kind.VOID, "the run was cut short")), ended=False)
    summary = summarise(run_of(result(NONE, EOS, KEPT), cut, complete=False, interrupted=True))
    assert (summary.planned, summary.ran, summary.void) == (2, 1, 1)
    assert "planned 2 ≠ ran 1" in summary.sentence


def test_renderers_are_known_by_their_names() -> None:
    assert {name: renderer.name for name, renderer in RENDERERS.items()} == {
        name: name for name in RENDERERS
    }
    assert list(RENDERERS) == ["json", "markdown", "junit", "html", "anomalies"]
    assert len({renderer.file for renderer in RENDERERS.values()}) == len(RENDERERS)


def test_junit_has_a_case_for_every_cell() -> None:
    """Red cells fail, what never began is an error, only what does not apply is skipped; every
    count is a property.
    """
    run = hostile_run()
    suite = ET.fromstring(RENDERERS["junit"].render(run)).find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    assert len(cases) == len(run.results) + len(run.missing) + len(run.info.not_applicable)
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        "14",
        "5",
        "1",
        "1",
    ]
    for case, cell in zip(cases, run.results, strict=False):
        found = {p.get("name"): p.get("value") for p in case.iter("property")}
        counts = {name: str(value) for name, value in cell.judgement.account.counts.items()}
        assert {name: found[name] for name in counts} == counts
        assert (case.find("failure") is None) is cell.verdict.green


class Page(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [str(value) for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        """Note it."""
        self.text.append(data)


def _page(html: str) -> Page:
    page = Page()
    page.feed(html)
    return page


def test_html_shows_hostile_text_and_obeys_none_of_it() -> None:
    """The page has no element, attribute or address that is not its own, and works without a
    network.
    """
    page = _page(RENDERERS["html"].render(hostile_run()))
    assert not page.tags & {"img", "link", "iframe", "object", "embed", "base", "svg"}
    assert not {name for name in page.attributes if name.startswith("on")}
    assert page.links
    assert all(re.fullmatch(r"#[A-Za-z0-9._=+-]*", link) for link in page.links)
    assert "{{ 7 * 7 }}" in "".join(page.text)
    assert visible(NASTY) in "".join(page.text)


def test_html_runs_one_script_and_it_is_ours() -> None:
    """Everything else between script tags is data, the page allows only what has our own sum, and
    no data ends its element.
    """
    html = RENDERERS["html"].render(hostile_run())
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", html, re.DOTALL)
    assert [head for head, _ in scripts if "application/" not in head] == [""]
    code_sum = base64.b64encode(hashlib.sha256(scripts[-1][1].encode()).digest()).decode()
    assert f"script-src 'sha256-{code_sum}'" in html
    for head, text in scripts[:-1]:
        assert (unfold if "octet-stream" in head else json.loads)(text)
        assert not set("<>&") & set(text), head


def test_html_has_every_count_of_the_account() -> None:
    """No column of the account that is not zero is missing from a cell's page."""
    for one in (*green_run().results, *hostile_run().results):
        counts = one.judgement.account.counts
        words = [
            (COUNTED.get(name, name.replace("_", " ")), count)
            for name, count in counts.items()
            if count
        ]
        found = detail_of(one, Shared())[0]["counts"]
        assert [each for each in found if each[0] != "of these stored more than once"] == words


def test_markdown_shows_hostile_text_and_obeys_none_of_it() -> None:
    """Rendered by a CommonMark parser, the report has its own elements only, and the text as it
    was.
    """
    text = RENDERERS["markdown"].render(hostile_run())
    page = _page(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    assert page.tags <= {
        "h1",
        "h2",
        "p",
        "ul",
        "li",
        "strong",
        "code",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
    }
    assert not page.links
    assert visible(NASTY) in "".join(page.text)
    for row in text.splitlines():
        if row.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", row)) == 5, row


TEXTS = (NASTY, NASTY_ID, "`", "``a`", " ", "a|b", "\\|", "\\`*", "&lt;", "1 < 2 > 0", "~~x~~")


@pytest.mark.parametrize("text", TEXTS)
def test_escapes_are_undone_by_a_parser(text: str) -> None:
    """What goes in escaped comes out as it was (with what cannot be seen as numbers)."""
    parser = MarkdownIt("commonmark").enable("strikethrough").enable("table")
    shown = "".join(_page(parser.render(f"x {markdown(text)} x")).text).strip()
    assert shown == f"x {visible(text)} x"
    shown = "".join(_page(parser.render(f"x {code(text)} x")).text).strip()
    assert shown.replace("  ", " ") == f"x {visible(text)} x".replace("  ", " ")


def test_a_rerun_line_is_safe_to_paste() -> None:
    plan = next(one.plan for one in hostile_run().results if NASTY_ID in one.plan.id)
    words = shlex.split(rerun_line(plan))
    assert words == ["lostack", "run", "--only", plan.id, "--seed", "1", "--records", "24"]
    assert shlex.split(rerun_line(replace(plan, system="memory")))[-2:] == ["--system", "memory"]


def test_seeds_share_a_spot_and_zero_is_bounded() -> None:
    """Zero in n runs is bounded by 3/n, void runs are not among the n, and the worst
    outcome shows.
    """
    [table] = [table for table in tables(hostile_run()) if table.pipeline == "plain"]
    row = next(row for row in table.rows if row.scenario == "ack-lost")
    assert (row.spots[AMO].evidence, row.spots[AMO].zero_bound("lost")) == (5, 0.6)
    assert (row.spots[ALO].evidence, row.spots[ALO].zero_bound("lost"), row.spots[ALO].outcome) == (
        1,
        1.0,
        "void",
    )
    assert row.spots[EOS].zero_bound("lost") is None
    assert "5 runs 60%" in RENDERERS["markdown"].render(hostile_run())


def test_a_run_that_stands_still_is_none_of_n() -> None:
    stuck = Verdict(Kind.STUCK, "no progress", fired=1)
    [table] = tables(run_of(result(NONE, ALO, KEPT, seed=1), result(NONE, ALO, stuck, seed=2)))
    assert (table.rows[0].spots[ALO].evidence, table.rows[0].spots[ALO].zero_bound("lost")) == (
        1,
        1.0,
    )


def test_nothing_is_said_of_a_history_that_could_not_be_read() -> None:
    """A void cell without a history has no counts: a question mark, never a zero."""
    run = run_of(result(NONE, EOS, Verdict(Kind.VOID, "no history"), readable=False))
    assert "| none |  | ? / ? ∅ void |" in RENDERERS["markdown"].render(run)
    assert json.loads(RENDERERS["json"].render(run))["matrix"][0]["lost"] is None


def test_a_run_of_somebodys_own_speaks_of_no_controls(tmp_path: Path) -> None:
    """It has none; of lostack's own pipelines zero is told, for a suite without a control proves
    nothing.
    """
    assert (
        summarise(own_run(tmp_path)).sentence
        == f"1 kept, 1 broken, 1 void, 0 stuck; planned 3 = ran 3; {count_without()} not applicable"
    )
    assert "0 controls convicted" in summarise(run_of(result(NONE, EOS, KEPT))).sentence


def test_a_simulated_run_says_so_first() -> None:
    one = result(ACK_LOST, EOS, KEPT)
    played = replace(one, judgement=replace(one.judgement, plan=replace(one.plan, system="memory")))
    run = run_of(played)
    assert not summarise(run).simulated
    run = replace(run, info=replace(run.info, versions={"memory": "simulated"}))
    assert summarise(run).sentence.startswith("SIMULATED")
