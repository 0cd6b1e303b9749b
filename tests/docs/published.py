"""What pages say of the committed runs in ``reports/published``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from harness.report.summary import SIGNS, Outcome
from harness.scoreboard.board import read_outcomes
from harness.scoreboard.page import as_markdown
from harness.scoreboard.predicting import read_predictions
from harness.scoreboard.table import read_clients, rows_of
from tests.docs.markdown import columns

PUBLISHED: Final = Path(__file__).parents[2] / "reports" / "published"
SHOWN: Final = "kafka/kafka-python/plain/broker-crash-before-ack/at-least-once/process/s1"
"""The cell that a page explains."""


def told_by(folder: Path = PUBLISHED) -> dict[str, Any]:
    """Return the numbers of a committed run."""
    told: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return told


def annotated_cell() -> str:
    """Return one cell as the terminal shows it, and what each part of it means."""
    told = told_by()
    cell = next(each for each in told["cells"] if each["id"] == SHOWN)
    summary = told["summary"]
    kind = Outcome(cell["outcome"])
    name = "/".join((cell["pipeline"], cell["scenario"], cell["semantic"], f"s{cell['seed']}"))
    return f"""\
```
{SIGNS[kind]} {kind}  {name}  {cell["seconds"]:.1f} s  {cell["reason"]}
```

| part | meaning |
|---|---|
| `{SIGNS[kind]} {kind}` | the verdict: the fault struck, that was proved, and the promise held |
| `{cell["pipeline"]}` | the pipeline: outbox → producer → topic → consumer → database |
| `{cell["scenario"]}` | the failure point: the broker has stored the record, and is killed before it answers |
| `{cell["semantic"]}` | the promise that is tested: it forbids a loss, and permits a duplicate |
| `s{cell["seed"]}` | the seed, from which the target record, keys and sizes are drawn |
| `{cell["reason"]}` | the counts: the producer sent record {cell["target"]} again, so it is stored twice |

The whole run: {counted(summary)}."""  # noqa: E501


def counted(summary: dict[str, Any]) -> str:
    """Return how many cells came out how."""
    return f"{summary['ran']} cells, " + ", ".join(
        f"{summary[kind]} {'controls convicted' if kind == 'convicted' else kind}"
        for kind in ("kept", "convicted", "broken", "not_convicted", "stuck", "void")
        if summary[kind]
    )


def scoreboard() -> str:
    """Return the table of the committed scoreboard, with what broke."""
    rows = tuple(rows_of(read_clients()))
    text = as_markdown(read_outcomes(PUBLISHED / "scoreboard"), rows, read_predictions())
    return text.partition("\n")[2].replace("\n## ", "\n### ")


def where_clients_differ() -> str:
    """Return the places at which the outcome depends on the client, of the run with
    three of them.
    """
    told = told_by(PUBLISHED / "clients")
    clients = list(dict.fromkeys(cell["client"] for cell in told["cells"]))
    spots: dict[str, dict[str, str]] = {}
    outcomes: dict[str, set[str]] = {}
    for cell in told["cells"]:
        place = "/".join((cell["pipeline"], cell["scenario"], cell["semantic"]))
        counts = (
            f"{cell['lost']} / {cell['duplicated']}" if cell["offered"] else "? / ?"
        )  # nothing was counted
        spots.setdefault(place, {})[cell["client"]] = (
            f"{counts} {SIGNS[Outcome(cell['outcome'])]} {cell['outcome']}"
        )
        outcomes.setdefault(place, set()).add(cell["outcome"])
    versions = told["run"]["versions"]
    heads = (
        f"{client} {versions['kafka-clients' if client == 'java' else client]}"
        for client in clients
    )
    rows = columns("where they differ", *heads)
    rows += [
        f"| {place} | {' | '.join(each[client] for client in clients)} |"
        for place, each in spots.items()
        if len(outcomes[place]) > 1
    ]
    return f"{counted(told['summary'])}.\n\n" + "\n".join(rows)
