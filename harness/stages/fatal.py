"""Finds the fatal errors of client libraries in the logs of programs."""

from __future__ import annotations

import re
from typing import Final

_FATAL: Final = re.compile(
    r"\|FATAL\||KafkaError\{FATAL|\b_FATAL\b|Local: Fatal error|org\.apache\.kafka\..*[Ff]atal"
)
"""How client libraries name an error after which a client is of no use: librdkafka, Java's."""


def fatal_lines(text: str) -> list[str]:
    r"""Return the lines in which a client library names a fatal error, each once.

    >>> fatal_lines("a\n%0|17|FATAL|rdkafka#producer-1| rewound sequence\nb")
    ['%0|17|FATAL|rdkafka#producer-1| rewound sequence']
    >>> fatal_lines("psycopg.OperationalError: FATAL:  the database system is starting up")
    []
    """
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if _FATAL.search(line)))
