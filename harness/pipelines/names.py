"""The names of a pipeline and of its topics that lostack accepts."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from harness.pipelines.refusing import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_OF_NAME = 64
"""The most bytes of a pipeline's name."""
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
BROKERS_OWN = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}
)


def check_name(name: str) -> None:
    """Raise :class:`DeclarationError` if a pipeline cannot have a name."""
    if not name or any(not (char.isalnum() or char in "-_") for char in name):
        raise DeclarationError(
            f"name: {name!r} is part of every cell's id: use letters, digits, - and _ only"
        )
    if (size := len(os.fsencode(name))) > MOST_OF_NAME:
        raise DeclarationError(
            f"name: has {size} bytes, and {MOST_OF_NAME} is the most, because it stands twice in "
            'the names of folders: write a shorter one, as name = "orders"'
        )


def check_topics(topics: Sequence[str]) -> None:
    """Raise :class:`DeclarationError` if lostack cannot create topics of these names."""
    if not topics:
        raise DeclarationError(
            "topics: name at least the topic between the stages; lostack creates it"
        )
    wrong = next(
        (topic for topic in topics if not TOPIC.fullmatch(topic) or topic in {".", ".."}),
        None,
    )
    if wrong is not None:
        raise DeclarationError(
            f"topics: {wrong!r} is no name of a topic: use letters, digits, '.', '_' and "
            "'-', at most 249"
        )
    if twice := next((topic for topic in topics if topics.count(topic) > 1), None):
        raise DeclarationError(f"topics: {twice} is named twice: name each topic once")
    if own := next((topic for topic in topics if topic in BROKERS_OWN), None):
        raise DeclarationError(
            f"topics: {own} is one of the broker's internal topics: choose another name"
        )
