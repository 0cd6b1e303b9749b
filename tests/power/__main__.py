"""Print what real servers keep of acknowledged records when their power goes."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.runtimes.power.tree import Names
from tests.power.servers import DAMAGES, RECORDS, damaged, power_cut, rate, servers

print("| server | setting | flushes | kept, ext4 | kept, posix |")  # noqa: T201 - this is the output
print("|---|---|---|---|---|")  # noqa: T201
for server in servers(lambda _: None):
    told = []
    for names in Names:
        with tempfile.TemporaryDirectory(prefix="lostack-") as made:
            told.append(power_cut(server, Path(made).resolve(), names))
    kept = " | ".join(f"{each.left} of {RECORDS}" for each in told)
    setting = server.setting or "default"
    print(f"| {server.title} | {setting} | {told[0].cut.flushes} | {kept} |", flush=True)  # noqa: T201

print("\n| server | setting | damage | left | read as stored | first warning |")  # noqa: T201
print("|---|---|---|---|---|---|")  # noqa: T201
whole = {b"record %d" % number for number in range(RECORDS)}
for server in servers(lambda _: None):
    if server.setting == "always":
        for damage in DAMAGES:
            with tempfile.TemporaryDirectory(prefix="lostack-") as made:
                found = damaged(server, Path(made).resolve(), damage)
            as_stored = len(whole.intersection(found.read))
            print(  # noqa: T201
                f"| {server.title} | {server.setting} | {damage} | {found.left} | {as_stored} | "
                f"{found.warned} |",
                flush=True,
            )

print("\n| server | setting | records a second | traced |")  # noqa: T201
print("|---|---|---|---|")  # noqa: T201
for server in servers(lambda _: None):
    speeds = []
    for traced in (False, True):
        with tempfile.TemporaryDirectory(prefix="lostack-") as made:
            speeds.append(rate(server, Path(made).resolve(), traced=traced))
    setting = server.setting or "default"
    print(f"| {server.title} | {setting} | {speeds[0]:.0f} | {speeds[1]:.0f} |", flush=True)  # noqa: T201
