"""A partition whose leader moves while it is read: waited for, for so long and no longer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness.audit import fetching
from harness.audit.fetching import Stretch, UnreadableError, fetched

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_LEADER, NOT_ALLOWED, FINE = 6, 29, 0
STRETCH = Stretch("127.0.0.1:9092", "orders", 1, 0, 7)


class Link:
    """A connection to a broker that answers each fetch by the next of these errors, and by the last for ever."""

    errors: tuple[int, ...]
    asked = 0

    def send(self, request: Any) -> None:
        """Take a request."""

    def receive(self, kind: Any, version: int) -> Any:
        """Answer it."""
        del kind, version
        error = Link.errors[min(Link.asked, len(Link.errors) - 1)]
        Link.asked += 1
        part = SimpleNamespace(error_code=error, records=b"", aborted_transactions=None)
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[part])])

    def close(self) -> None:
        """Leave."""


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give the number of fetches after which reading ended, and with what, for brokers that answer so."""
    monkeypatch.setattr(fetching, "_leader", lambda _: Link())
    monkeypatch.setattr(fetching, "PATIENCE_S", 0.5)
    monkeypatch.setattr(fetching, "ASK_AGAIN_S", 0.01)

    def end(*errors: int) -> tuple[int, str]:
        Link.errors, Link.asked = errors, 0
        with pytest.raises(UnreadableError) as raised:
            list(fetched(STRETCH))
        return Link.asked, str(raised.value)

    return end


def test_a_leader_that_is_none_any_more_is_asked_for_again_until_there_is_one(ask: Any) -> None:
    """Refused by three of them, then read on from the same offset (and given nothing there)."""
    asked, said = ask(NOT_LEADER, NOT_LEADER, NOT_LEADER, FINE)
    assert asked > len((NOT_LEADER, NOT_LEADER, NOT_LEADER, FINE))
    assert said == "partition 1 of orders cannot be read from offset 0 on: it gives nothing"


def test_where_nobody_leads_it_is_given_up_with_the_reason(ask: Any) -> None:
    """One line, with what was said last."""
    _, said = ask(NOT_LEADER)
    assert said == "partition 1 of orders cannot be read from offset 0 on: NotLeaderForPartitionError"


def test_what_will_not_change_is_not_waited_for(ask: Any) -> None:
    """One question is enough."""
    assert ask(NOT_ALLOWED) == (1, "partition 1 of orders cannot be read at offset 0: TopicAuthorizationFailedError")
