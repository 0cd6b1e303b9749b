"""A log that is scripted, and a program that speaks to it: both know a record by its correlation
id.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from harness.protocols.kafka.steps import Api
from tests.wire import kafka_frames as kf
from tests.wire.broker import Client, ScriptedBroker, corr_of, response

FETCH, COMMIT = 100_000, 200_000
EACH = 1000
RECORDS = 6
CLIENT = "shop"


def value(number: int) -> bytes:
    """Return a record."""
    return json.dumps({"order": number}).encode()


class Log:
    """Answers as a broker of one partition, which recognises no repetition."""

    def __init__(self) -> None:
        self.records: list[int] = []

    def __call__(self, frame: bytes) -> bytes:
        """Answer a request."""
        api, corr = int.from_bytes(frame[4:6], "big"), corr_of(frame)
        if api == Api.PRODUCE.number:
            self.records.append(corr % EACH)
            return kf.produce_answer(corr, base_offset=len(self.records) - 1)
        if api == Api.FETCH.number:
            offset = corr - FETCH
            there = self.records[offset : offset + 1]
            found = kf.batch([value(number) for number in there], base_offset=offset)
            return kf.fetch_answer(corr, found if there else b"")
        if api == Api.OFFSET_COMMIT.number:
            return kf.commit_answer(corr)
        return response(corr, b"answer")


def broker() -> ScriptedBroker:
    """Return a broker that starts empty."""
    return ScriptedBroker(Log())


class Program:
    """A program with a connection that it makes anew. ``tries``: how often a request is sent."""

    def __init__(self, tries: int) -> None:
        self._port = int(os.environ["LOSTACK_BOOTSTRAP"].rpartition(":")[2])
        self._tries = tries
        self._client: Client | None = None
        self.gave_up = 0

    def ask(self, frames: list[bytes]) -> bytes | None:
        """Send a request, and each time that its connection ends the next one of these."""
        for frame in frames[: self._tries]:
            try:
                self._client = self._client or Client(self._port)
                return self._client.ask(frame)
            except (EOFError, OSError):
                self._client = None
        self.gave_up += 1
        return None

    def send(self, number: int) -> bytes | None:
        """Send a record."""
        frames = [
            kf.produce(number + attempt * EACH, CLIENT, kf.batch([value(number)]))
            for attempt in range(3)
        ]
        return self.ask(frames)

    def read(self) -> list[int]:
        """Read all records that are new, and save each position."""
        rows: list[int] = []
        kept = Path(os.environ["TMPDIR"]) / "position"
        offset = int(kept.read_text(encoding="ascii")) if kept.exists() else 0
        while True:
            found = self.ask([kf.fetch(FETCH + offset, CLIENT, offset)] * 3)
            if found is None or b'"order"' not in found:
                kept.write_text(str(offset), encoding="ascii")
                return rows
            rows.append(int(found.partition(b'"order": ')[2].partition(b"}")[0]))
            offset += 1
            self.ask([kf.commit(COMMIT + offset, CLIENT, offset)] * 3)


def main(word: str) -> int:
    """Run one of the programs."""
    if word == "elsewhere":
        return 0
    program = Program(3 if word in {"fine", "second"} else 1)
    for number in range(RECORDS):
        program.send(number)
    if program.gave_up and word == "waits":
        signal.pause()
    rows = program.read()
    if word == "second":
        mark = Path(os.environ["TMPDIR"]) / "ran"
        failed = mark.exists()
        mark.touch()
        return int(failed)
    if word in {"fails", "strict"}:
        print(f"read {sorted(set(rows))}")  # noqa: T201 - what a test says
    return int(word == "fails" or (word == "strict" and len(set(rows)) < RECORDS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
