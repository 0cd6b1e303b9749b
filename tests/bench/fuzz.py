"""Damaged frames fed to every protocol, and damaged requests to what refuses them: how many, and
that nothing is raised.
"""

from __future__ import annotations

import random
import sys
import time
from itertools import cycle
from typing import TYPE_CHECKING

from harness.contract.suite_protocols import damaged, everything, follows
from harness.wire.protocol import Frame, UnableError
from tests.contract.protocols import LIMIT, PROTOCOLS, TO

if TYPE_CHECKING:
    from tests.contract.protocols import Speaker

FRAMES = 1_000_000
"""So many of each protocol, where nobody says otherwise."""
SEED = 7


def measure(*, rounds: int = 3) -> dict[str, dict[str, float]]:
    """Feed so many frames of each protocol; raises what the first crash raises, behind the frame's
    number.
    """
    return {name: fuzzed(speaker, FRAMES) for name, speaker in PROTOCOLS.items()}


def fuzzed(speaker: Speaker, count: int, seed: int = SEED) -> dict[str, float]:
    """Damage conversations, and requests that are to be refused, until so many frames were fed.
    Return what came of them.
    """
    chance, began = random.Random(seed), time.process_time()
    said = [each for each in everything(speaker) if each[1]]
    questions = cycle(speaker.refused("k") or [b""])
    fed = refused = 0
    protocol = speaker.make()
    while fed < count:
        session, ledger = protocol.session(1, limit=LIMIT), protocol.ledger("k", None)
        try:
            for way, data in said:
                fed += 1
                if not follows(session, way, damaged(chance, data), ledger):
                    break
            fed += 1
            refused += _refused(speaker, damaged(chance, next(questions)), chance)
        except Exception:
            sys.stderr.write(f"{speaker.name}: frame {fed} with seed {seed}\n")
            raise
    return {"frames": fed, "refused": refused, "seconds": round(time.process_time() - began, 1)}


def _refused(speaker: Speaker, data: bytes, chance: random.Random) -> bool:
    """Refuse a request that may be damaged; false where it cannot be."""
    protocol = speaker.make()
    session = protocol.session(1, limit=LIMIT)
    frame = session.feed(TO, data) if data else None
    if (
        not isinstance(frame, Frame)
        or frame.size > len(data)
        or (frame.step, TO) not in protocol.steps
    ):
        return False
    errors = sorted(protocol.steps[frame.step, TO].errors)
    try:
        return bool(errors) and bool(
            session.refuse(frame, data[: frame.size], chance.choice(errors))
        )
    except UnableError as error:
        if "\n" in str(error):
            raise ValueError(f"not one line: {error}") from error
        return False


if __name__ == "__main__":
    for name in sys.argv[1:] or PROTOCOLS:
        print(name, fuzzed(PROTOCOLS[name], FRAMES), flush=True)  # noqa: T201 - what a benchmark is for
