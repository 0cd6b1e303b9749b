"""What all tests share: how hard Hypothesis looks, which signals are heard, and what is said where
something is missing.

``--hypothesis-profile=thorough`` looks harder, with new luck.
"""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from lostack_rabbitmq.install import why_not as why_no_rabbitmq

from harness.cli.signals import restore_signals
from harness.model.failures import EnvironmentFailure
from harness.provision.postgres import why_no_postgres
from harness.runtimes.process.durable import why_no_tracing
from harness.systems import SYSTEMS
from tests.browser.chromium import programs
from tests.containers import engine
from tests.memory import ABOUT, MEMORY
from tests.proxy.toolchains import why_no_go, why_no_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

pytest_plugins = ("tests.tiers", "tests.leftovers", "tests.timing")

# the in-memory system that tests run, which no package of a user's has
SYSTEMS[MEMORY] = ABOUT

# in every process of the session, so that tests may send signals to themselves and to children
restore_signals()

settings.register_profile(
    "quick",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("quick")

WORKERS_A_CORE = 1.5
"""How many workers share a core. With one each, a third of the cores' time is idle: tests wait for
processes to start and to end, and for limits of time to pass.
"""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many workers there are with ``-n auto``."""
    return round(WORKERS_A_CORE * len(os.sched_getaffinity(0)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage while tests are found, and none of them later: they stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()


_NOT_RUN = pytest.StashKey[dict[str, tuple[int, str]]]()
_NEEDS: Mapping[str, Callable[[], str | None]] = {
    "browser": lambda: programs().missing,
    "docker": engine.missing,
    "go": why_no_go,
    "node": why_no_node,
    "postgres": why_no_postgres,
    "rabbitmq": why_no_rabbitmq,
    "strace": why_no_tracing,
}
"""What tests with a marker need: why it is missing, or ``None``."""


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Where something is missing, the tests that need it are taken out, and counted for the last
    lines: no quiet skips.
    """
    yield
    not_run = config.stash.setdefault(_NOT_RUN, {})
    for marker, look in _NEEDS.items():
        found = [item for item in items if item.get_closest_marker(marker)]
        try:
            missing = look() if found else None
        except EnvironmentFailure as error:
            raise pytest.UsageError(str(error)) from None
        if missing:
            not_run[marker] = (len(found), missing)
            config.hook.pytest_deselected(items=found)
            items[:] = [item for item in items if item not in found]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say at the end which tests were not run, and why."""
    not_run = config.stash.get(_NOT_RUN, {})
    if not_run:
        terminalreporter.write_sep("=", "NOT RUN", red=True, bold=True)
    for marker, (count, missing) in not_run.items():
        terminalreporter.write_line(f"{count} {marker} tests were NOT run: {missing}", red=True)
