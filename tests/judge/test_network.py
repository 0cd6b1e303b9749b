"""The proof that a fault of the network was there: each effect just enough, and just not enough."""

from __future__ import annotations

from typing import Any

import pytest

from harness.proofs.network import Effect, NetworkBad, trouble
from tests.events import typed

Row = dict[str, Any]

ENOUGH: dict[Effect, tuple[float, Row, Row, str]] = {
    Effect.LATE: (0.8, {"longest_s": 0.8}, {"longest_s": 0.79}, "no request waited 0.8 s"),
    Effect.SILENT: (
        0,
        {"sent": 9, "answers": 0},
        {"sent": 9, "answers": 1},
        "1 requests were answered",
    ),
    Effect.CUT: (
        3,
        {"lost": 3},
        {"lost": 2, "left": 9},
        "2 connections were ended from the broker's side, not 3",
    ),
    Effect.SLOW: (
        1000,
        {"answers": 2, "rate": 999.0},
        {"answers": 2, "rate": 1001.0},
        "answered at 1001 bytes a second",
    ),
    Effect.SLICED: (
        2,
        {"answers": 4, "reads": 8},
        {"answers": 4, "reads": 7},
        "4 answers came in 7 pieces",
    ),
}
NOTHING: dict[Effect, str] = {
    Effect.SILENT: "nothing was sent",
    Effect.SLOW: "no request was answered",
    Effect.SLICED: "no request was answered",
}


def window(role: str = "producer", **counts: object) -> list[Any]:
    """The network is made bad and mended."""
    on, off = {"phase": "on"}, {"phase": "off", "sent": 0, "answers": 0, **counts}
    return [typed({"event": "network", "role": role, **told}) for told in (on, off)]


@pytest.mark.parametrize("effect", Effect)
def test_an_effect_shows_or_does_not(effect: Effect) -> None:
    """Just enough is enough; a little less without effect, and the reason has the number."""
    limit, enough, short, reason = ENOUGH[effect]
    need = NetworkBad(("producer",), effect, limit)
    assert trouble(need, window(**enough)) is None
    said = trouble(need, window(**short))
    assert said is not None
    assert "without effect" in said
    assert reason in said


@pytest.mark.parametrize("effect", NOTHING)
def test_where_nothing_passes_nothing_shows(effect: Effect) -> None:
    assert NOTHING[effect] in str(trouble(NetworkBad(("producer",), effect, 2), window()))


def test_it_must_have_been_put_on_and_taken_off_as_often_as_declared() -> None:
    """Once too few, or never mended, is no proof; every single time must show the effect."""
    need = NetworkBad(("producer",), Effect.CUT, 1, times=2)
    once = window(lost=1)
    assert trouble(need, once) == "the network was made cut for the producer 1 times, not 2"
    assert trouble(need, [*once, *window(lost=1)]) is None
    assert "without effect" in str(trouble(need, [*once, *window(lost=0)]))
    assert (
        trouble(need, [*once, *window(lost=1)[:1]])
        == "the network was never mended for the producer"
    )


def test_every_role_must_have_felt_it() -> None:
    need = NetworkBad(("producer", "consumer"), Effect.CUT, 1)
    assert "for the consumer 0 times" in str(trouble(need, window(lost=1)))
    assert trouble(need, [*window(lost=1), *window("consumer", lost=1)]) is None
