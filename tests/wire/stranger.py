"""What another user of the machine can do to a program of ours: knock at whatever it listens on.

Standard library only, because it runs as a user who may not read our files: where the tests run as
root it becomes ``nobody`` first. Else it stays the same user, who knows no secret.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

NOBODY = 65534
LISTENS = "0A"
"""The state of a listening socket in ``/proc/net/tcp``."""
ANSWER_S = 2.0


def knock(pid: int, lines: list[str], *more: int | str) -> list[str]:
    """Say lines, as another user, to everything that a process listens on, and at ``more`` places.

    Return the answers, one text for each place that could be reached.
    """
    script = Path(__file__).read_text(encoding="utf-8")
    told = json.dumps({"places": [*places(pid), *more], "lines": lines})
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], input=told, check=True, capture_output=True, text=True
    )
    answers: list[str] = json.loads(done.stdout)
    return answers


def places(pid: int) -> list[int | str]:
    """Return the ports and the paths of sockets that a process listens on.

    Every user may read these tables.
    """
    inodes = {_inode(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    tcp = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    ports = [
        int(words[1].partition(":")[2], 16)
        for words in tcp
        if words[3] == LISTENS and words[9] in inodes
    ]
    unix = [line.split() for line in Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]]
    return [*ports, *(words[7] for words in unix if len(words) > 7 and words[6] in inodes)]


def _inode(link: Path) -> str:
    try:
        return str(link.readlink()).removeprefix("socket:[").removesuffix("]")
    except OSError:
        return ""


def _become_nobody() -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _said(place: int | str, lines: list[str]) -> str:
    family = socket.AF_INET if isinstance(place, int) else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(ANSWER_S)
        sock.connect(("127.0.0.1", place) if isinstance(place, int) else place)
        answer = b""
        try:
            sock.sendall("".join(f"{line}\n" for line in lines).encode())
            while more := sock.recv(1 << 16):
                answer += more
        except OSError:
            pass
    return answer.decode(errors="replace")


def main() -> None:
    """Become nobody, then knock at each place, and print the answers."""
    asked = json.load(sys.stdin)
    _become_nobody()
    answers = []
    for place in asked["places"]:
        try:
            answers.append(_said(place, asked["lines"]))
        except OSError:
            continue
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
