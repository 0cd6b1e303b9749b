"""Writes a finding as a folder for a bug report: what was run, in words and in the protocol's
names, without local paths.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.model import events as kinds
from harness.model.failures import UsageError
from harness.model.history import HISTORY, read_history
from harness.model.secrets import MASK, masked, masked_value
from harness.pipelines import read_pipeline
from harness.report.escaping import code, markdown
from harness.saved import RunInfo
from harness.sweep.asked import Asked
from harness.sweep.found import Found
from harness.sweep.outcomes import hit_of
from harness.sweep.pipelines import sweep_of
from harness.sweep.shrinking import file_of
from harness.sweep.sweeping import FOUND

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.model.history import Event, History
    from harness.sweep.outcomes import Finding

BEFORE, BEHIND = 12, 40
"""How many history lines are shown before a fault and after it."""


def export(file: Path, to: Path) -> tuple[Path, ...]:
    """Write the folder ``to`` of a finding; return its files. ``file``: its scenario file, in the
    sweep's folder ``found``.

    Raises:
        UsageError: the file is not in the folder ``found`` of a sweep, the sweep no longer has the
            finding, or ``to`` exists.
    """
    directory = file.resolve().parent.parent
    if file.resolve().parent.name != FOUND:
        raise UsageError(f"{file} is not in the folder {FOUND} of a sweep")
    if to.exists():
        raise UsageError(f"the folder {to} exists already: name a new one")
    sweep = sweep_of(Asked.load(directory), directory)
    findings = sweep.outcomes(sweep.planned()).findings()
    finding = next((each for each in findings if file_of(sweep, each).name == file.name), None)
    if finding is None:
        raise UsageError(
            f"the sweep no longer has the finding of {file}: name another file of the same folder"
        )
    found = Found.load(file)
    to.mkdir(parents=True)
    written = [to / "README.md"]
    if found.declaration:
        written.append(Path(shutil.copy(found.declaration, to)))
        _conceal(written[-1])
        found = replace(found, declaration=str(written[-1]))
    written.append(found.save(to / file.name))
    versions = RunInfo.load(finding.first.directory.parent.parent).versions
    written[0].write_text("\n".join(_lines(finding, found, versions)) + "\n", encoding="utf-8")
    return tuple(written)


def _conceal(declaration: Path) -> None:
    """Mask the secrets in a copy of a declaration, which somebody else will read."""
    text = masked(declaration.read_text(encoding="utf-8"))
    for program in read_pipeline(declaration).programs:
        for name, value in program.environment.items():
            if masked_value(name, value) == MASK:
                for quote in "\"'":
                    text = text.replace(f"{quote}{value}{quote}", f"{quote}{MASK}{quote}")
    declaration.write_text(text, encoding="utf-8")


def _lines(finding: Finding, found: Found, versions: Mapping[str, str]) -> Iterator[str]:
    result = finding.first
    history = read_history(result.directory / HISTORY)
    yield from (
        f"# {markdown(found.name)}",
        "",
        markdown(found.because),
        "",
        f"What came of it: {markdown(result.reason)}.",
        "",
    )
    yield f"It {found.again}; it was seen at {len(finding.points)} points."
    yield from (
        "",
        "## Again",
        "",
        code(f"lostack run --scenario {found.name}.toml"),
        "",
        "## Versions",
        "",
    )
    yield from (f"- {markdown(name)}: {markdown(version)}" for name, version in versions.items())
    yield from ("", "## Settings", "")
    settings = json.loads((result.directory / "cell.json").read_text(encoding="utf-8"))["settings"]
    if found.declaration:
        yield f"As {code(Path(found.declaration).name)} says."
    else:
        yield from (
            f"- {markdown(part)}: {code(json.dumps(said))}" for part, said in settings.items()
        )
    yield from (
        "",
        "## The frames around the fault",
        "",
        "| ms | who | frame | about | |",
        "|---|---|---|---|---|",
    )
    yield from _frames(history)


def _frames(history: History) -> Iterator[str]:
    hit = hit_of(history)
    at = None if hit is None else hit["t"]
    shown = [
        e
        for e in history.of(kinds.FRAME, kinds.RULE, kinds.NODE)
        if e["event"] != kinds.RULE or e.get("phase") in _TOLD
    ]
    place = next(
        (number for number, event in enumerate(shown) if at is not None and event["t"] >= at), 0
    )
    for event in shown[max(0, place - BEFORE) : place + BEHIND]:
        yield _row(event, 0 if at is None else event["t"] - at)


_TOLD = frozenset({"hit", "discarded", "delivered", "released", "dropped", "cut", "answered"})


def _row(event: Event, since: int) -> str:
    if event["event"] == kinds.NODE:
        return (
            f"| {since / 1e6:.1f} | {markdown(str(event['node']))} | | | "
            f"**{markdown(str(event['phase']))}** |"
        )
    about = ", ".join(event.get("records", ()))
    what = f"**{event['rule']}: {event['phase']}**" if event["event"] == kinds.RULE else ""
    error = (
        f"error {event['error']}" if event["event"] == kinds.FRAME and event.get("error") else what
    )
    frame = f"{event.get('api', '')} {event.get('dir', '')}"
    return (
        f"| {since / 1e6:.1f} | {markdown(str(event.get('role', '')))} | {markdown(frame)} | "
        f"{markdown(about)} | {error} |"
    )
