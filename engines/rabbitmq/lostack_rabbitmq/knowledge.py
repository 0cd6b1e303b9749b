"""What the judge must know of RabbitMQ's histories."""

from __future__ import annotations

from typing import Final

from harness.judge.proof import Knowledge
from harness.judge.queue_selections import outlived

KNOWLEDGE: Final = Knowledge(signs=(outlived,))
