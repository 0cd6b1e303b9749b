"""The declaration of a row: one program as a pipeline of its own, as ``lostack check`` reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from harness.model.scenario import Role
from harness.scoreboard.table import TWO_MEMBERS

if TYPE_CHECKING:
    from harness.scoreboard.building import BuiltClient
    from harness.scoreboard.table import Row

_ENDS: Final = {
    Role.PRODUCER: ("stdin", "orders", 'kind = "topic"\ntopic = "orders"'),
    Role.CONSUMER: ("topic", "orders", 'kind = "stdout"'),
    Role.PROCESSOR: ("topic", "priced", 'kind = "topic"\ntopic = "priced"'),
}
"""By role: the kind of the input, the last topic, and the output."""


def declaration(row: Row, built: BuiltClient) -> str:
    """Return the declaration of a row, in TOML."""
    kind, last, output = _ENDS[row.role]
    topics = list(dict.fromkeys(("orders", last)))
    words = [*built.commands[str(row.role)], row.program_mode]
    scale = "scale = 2\n" if row.mode == TWO_MEMBERS else ""
    entrance = f'kind = "{kind}"' + ('\ntopic = "orders"' if kind == "topic" else "")
    return (
        f"name = {json.dumps(row.id.replace('/', '-'))}\n"
        f'claims = "{row.claims}"\n'
        f"topics = {json.dumps(topics)}\n\n"
        f'[[stage]]\nrole = "{row.role}"\ncommand = {json.dumps(words)}\n{scale}\n'
        f"[input]\n{entrance}\n\n[output]\n{output}\n"
    )
