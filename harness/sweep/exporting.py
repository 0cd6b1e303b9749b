"""Writes a finding as a folder for a bug report: what was run, in words and in the protocol's
names, without local paths.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import tomlkit
from tomlkit.exceptions import TOMLKitError

from harness.model import events as kinds
from harness.model import safe_files
from harness.model.events import RulePhase
from harness.model.failures import UsageError
from harness.model.history import HISTORY, read_history
from harness.model.plan import Plan
from harness.model.secrets import masked, masked_settings
from harness.report.escaping import code, markdown
from harness.saved import RunInfo
from harness.sweep.found import FoundScenario
from harness.sweep.outcomes import hit_of
from harness.sweep.pipelines import sweep_of
from harness.sweep.settings import FOUND, SweepSettings
from harness.sweep.shrinking import file_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.model.history import History
    from harness.sweep.outcomes import Finding

BEFORE, BEHIND = 12, 40
"""How many history lines are shown before a fault and after it."""


def export(file: Path, to: Path) -> tuple[Path, ...]:
    """Write the folder ``to`` of a finding; return its files. ``file``: its scenario file, in the
    sweep's folder ``found``.

    Raises:
        UsageError: the file is not in the folder ``found`` of a sweep, the sweep no longer has the
            finding, it names another declaration than the sweep's own, the secrets in that cannot
            be masked, or ``to`` exists. Nothing is written then.
    """
    directory = file.absolute().parent.parent.resolve()
    if file.absolute().parent.name != FOUND:
        raise UsageError(f"{file} is not in the folder {FOUND} of a sweep: name a file there")
    if to.exists():
        raise UsageError(f"the folder {to} exists already: name a new one")
    asked = SweepSettings.load(directory)
    found = FoundScenario.load(directory / FOUND / file.name, directory)
    if found.declaration and not (
        asked.declared and Path(found.declaration).resolve() == Path(asked.what).resolve()
    ):
        raise UsageError(
            f"{file} names another declaration than that of its sweep ({asked.what}): name an "
            "unchanged file"
        )
    sweep = sweep_of(asked, directory)
    findings = sweep.outcomes(sweep.planned()).findings()
    finding = next((each for each in findings if file_of(sweep, each).name == file.name), None)
    if finding is None:
        raise UsageError(
            f"the sweep no longer has the finding of {file}: name another file of the same folder"
        )
    versions = RunInfo.load(finding.first.directory.parent.parent).versions
    texts = {"README.md": ""}
    if found.declaration:  # it has been read as the sweep's declaration, so it is one
        declaration = Path(found.declaration)
        texts[declaration.name] = _concealed(declaration)
        found = replace(found, declaration=str(to / declaration.name))
    texts[file.name] = found.text(to)
    texts["README.md"] = "\n".join(_lines(finding, found, versions)) + "\n"
    _write_folder(to, texts)
    return tuple(to / name for name in texts)


def _write_folder(to: Path, texts: Mapping[str, str]) -> None:
    """Write the files of a new folder by their names: all of them or none."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=to.parent, prefix=".") as making:
        whole = safe_files.make_folder(Path(making), to.name)
        for name, text in texts.items():
            safe_files.write_whole(whole, name, text)
        whole.rename(to)


def _concealed(declaration: Path) -> str:
    """Return the text of a declaration with its secrets masked: somebody else will read it.

    The secrets are found among its values, however their text writes them.

    Raises:
        UsageError: the declaration is written in a way that its secrets cannot be masked in.
    """
    text = safe_files.read_named(declaration).decode()
    hidden = masked_settings(safe_files.parse_toml(text))
    try:
        document = tomlkit.parse(text)
        _put(document, hidden)
        found = _STRINGS_COMMENTS.sub(_without_secrets, tomlkit.dumps(document))
        whole = repr(safe_files.parse_toml(found)) == repr(hidden)  # nan does not equal itself
    except (TOMLKitError, ValueError):
        whole = False
    if not whole:
        raise UsageError(
            f"the secrets in {declaration} cannot be masked: take them out of it, e.g. into files "
            "that its programs read, and export the finding again"
        )
    return found


_STRINGS_COMMENTS: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|"(?:\\.|[^"\\\n])*"'
    r"|'''.*?'{3,5}|'[^'\n]*'"
    r"|(?P<comment>#[^\n]*(?:\n\s*#[^\n]*)*)",
    re.DOTALL,
)
"""The strings of TOML, in which nothing begins a comment, and the comments."""


def _without_secrets(found: re.Match[str]) -> str:
    return masked(found[0]) if found["comment"] else found[0]


def _put(into: Any, hidden: Any) -> None:
    """Put what is masked in its place in a document, which keeps its form and its comments."""
    for key, value in hidden.items() if isinstance(hidden, dict) else enumerate(hidden):
        if isinstance(value, dict | list):
            _put(into[key], value)
        elif into[key] != value:
            into[key] = value


def _lines(finding: Finding, found: FoundScenario, versions: Mapping[str, str]) -> Iterator[str]:
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
    settings = Plan.load(result.directory).settings
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
    at = None if hit is None else hit.t
    shown = [
        e
        for e in history.of(kinds.Frame, kinds.Rule, kinds.Node)
        if not isinstance(e, kinds.Rule) or e.phase in _TOLD
    ]
    place = next(
        (number for number, event in enumerate(shown) if at is not None and event.t >= at), 0
    )
    for event in shown[max(0, place - BEFORE) : place + BEHIND]:
        yield _row(event, 0 if at is None else event.t - at)


_TOLD = frozenset(
    {
        RulePhase.HIT,
        RulePhase.DISCARDED,
        RulePhase.DELIVERED,
        RulePhase.RELEASED,
        RulePhase.DROPPED,
        RulePhase.CUT,
        RulePhase.ANSWERED,
    }
)


def _row(event: kinds.Frame | kinds.Rule | kinds.Node, since: int) -> str:
    if isinstance(event, kinds.Node):
        return f"| {since / 1e6:.1f} | {markdown(event.node)} | | | **{markdown(event.phase)}** |"
    about = ", ".join(event.records or ())
    if isinstance(event, kinds.Rule):
        error = f"**{event.rule}: {event.phase}**"
    else:
        error = f"error {event.error}" if event.error else ""
    frame = f"{event.api or ''} {event.dir or ''}"
    return (
        f"| {since / 1e6:.1f} | {markdown(event.role or '')} | {markdown(frame)} | "
        f"{markdown(about)} | {error} |"
    )
