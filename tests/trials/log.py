"""A log that is scripted, and a program that speaks to it: both know a record by its correlation
id.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from pathlib import Path

from tests.wire.broker import Client, ScriptedBroker, corr_of, response

FETCH, COMMIT = 100_000, 200_000
EACH = 1000
RECORDS = 6
OFFSETS = 500
ATTEMPTS = range(3)
CLIENT = "shop"


def value(number: int) -> bytes:
    """Return a record."""
    return json.dumps({"order": number}).encode()


class Log:
    """Answers as a broker of one partition, which recognises no repetition."""

    def __init__(self) -> None:
        from harness.protocols.kafka.steps import Api  # noqa: PLC0415 - programs start without it
        from tests.wire import kafka_frames  # noqa: PLC0415

        self.records: list[int] = []
        self._api, self._kf = Api, kafka_frames

    def __call__(self, frame: bytes) -> bytes:
        """Answer a request."""
        api, corr = int.from_bytes(frame[4:6], "big"), corr_of(frame)
        if api == self._api.PRODUCE.number:
            self.records.append(corr % EACH)
            return self._kf.produce_answer(corr, base_offset=len(self.records) - 1)
        if api == self._api.FETCH.number:
            offset = corr - FETCH
            there = self.records[offset : offset + 1]
            found = self._kf.batch([value(number) for number in there], base_offset=offset)
            return self._kf.fetch_answer(corr, found if there else b"")
        if api == self._api.OFFSET_COMMIT.number:
            return self._kf.commit_answer(corr)
        return response(corr, b"answer")

    def save_requests(self) -> None:
        """Write the requests that programs send, so that none of them has to make any."""
        kf = self._kf
        requests = {
            "produce": [
                [
                    kf.produce(number + more * EACH, CLIENT, kf.batch([value(number)]))
                    for more in ATTEMPTS
                ]
                for number in range(RECORDS)
            ],
            "fetch": [kf.fetch(FETCH + offset, CLIENT, offset) for offset in range(OFFSETS)],
            "commit": [kf.commit(COMMIT + offset, CLIENT, offset) for offset in range(OFFSETS)],
        }
        _requests().write_bytes(pickle.dumps(requests))


def _requests() -> Path:
    return Path(os.environ["TMPDIR"]) / "requests"


def broker() -> ScriptedBroker:
    """Return a broker that starts empty."""
    log = Log()
    log.save_requests()
    return ScriptedBroker(log)


class Program:
    """A program with a connection that it makes anew. ``tries``: how often a request is sent."""

    def __init__(self, tries: int) -> None:
        self._port = int(os.environ["LOSTACK_BOOTSTRAP"].rpartition(":")[2])
        self._requests = pickle.loads(_requests().read_bytes())  # noqa: S301 - the tests' own
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
        return self.ask(self._requests["produce"][number])

    def read(self) -> list[int]:
        """Read all records that are new, and save each position."""
        rows: list[int] = []
        kept = Path(os.environ["TMPDIR"]) / "position"
        offset = int(kept.read_text(encoding="ascii")) if kept.exists() else 0
        while True:
            found = self.ask([self._requests["fetch"][offset]] * 3)
            if found is None or b'"order"' not in found:
                kept.write_text(str(offset), encoding="ascii")
                return rows
            rows.append(int(found.partition(b'"order": ')[2].partition(b"}")[0]))
            offset += 1
            self.ask([self._requests["commit"][offset]] * 3)


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
