"""The one step of PostgreSQL's protocol that the wire knows."""

from __future__ import annotations

from typing import Final

from harness.wire.protocol import Step
from harness.wire.rules import Api, Direction

COMMIT: Final = str(Api.DATABASE_COMMIT)
STEPS: Final = {(COMMIT, way): Step(selects=frozenset({"record"}), durable=way is Direction.REQUEST) for way in Direction}
