"""What all tests share: how hard Hypothesis looks, and what is said where there is no browser.

``--hypothesis-profile=thorough`` looks harder, with new luck.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.browser.chromium import programs

if TYPE_CHECKING:
    from collections.abc import Iterator

settings.register_profile("quick", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("quick")

_NOT_RUN = pytest.StashKey[int]()
_MISSING = programs().missing


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Where there is no browser, its tests are taken out, and counted for the last line: no quiet skips."""
    yield
    found = [item for item in items if item.get_closest_marker("browser")]
    if _MISSING and found:
        config.stash[_NOT_RUN] = len(found)
        config.hook.pytest_deselected(items=found)
        items[:] = [item for item in items if item not in found]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end which tests were not run, and why."""
    count = config.stash.get(_NOT_RUN, 0)
    if count:
        terminalreporter.write_sep("=", "NOT RUN", red=True, bold=True)
        terminalreporter.write_line(f"{count} browser tests were NOT run: {_MISSING}", red=True)
