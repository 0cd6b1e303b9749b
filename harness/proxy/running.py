"""The wire of one test: a process that ends with the process that has started it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.model.closing import Closing
from harness.model.failures import EnvironmentFailure
from harness.wire.control import WireControl, argv
from harness.wire.door import SECRET, new_secret
from harness.wire.messages import WireError

END_S = 10.0


class OwnWire(Closing):
    """A running wire. ``folder``: where its histories stay; without one they go at the end."""

    def __init__(self, folder: Path | None = None) -> None:
        self._kept = folder is not None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="lostack-proxy-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder = self.folder.absolute()
        self._log = (self.folder / "wire.log").open("wb")
        secret = new_secret()
        self._process = subprocess.Popen(
            argv(self.folder / "wire", self.folder, forget=not self._kept),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, SECRET: secret, "TMPDIR": str(self.folder)},
            process_group=0,  # Ctrl-C reaches the test alone, which then ends this process
        )
        try:
            self.control = WireControl.connect(self._address(), secret)
        except BaseException:
            self._end()
            raise

    def _address(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        said = self._process.stdout.readline()
        if not said:
            log = (self.folder / "wire.log").read_text(encoding="utf-8", errors="replace")
            raise EnvironmentFailure(f"the wire did not start: {log.strip()[-300:]}")
        return str(json.loads(said)["control"])

    def close(self) -> None:
        """End the wire's process."""
        with contextlib.suppress(WireError):
            self.control.close()
        self._end()

    def _end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        if not self._kept:
            shutil.rmtree(self.folder, ignore_errors=True)
