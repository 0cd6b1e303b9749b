"""The proxy in a project's own tests: a fixture that makes proxies, and fails if a fault has not
struck.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.proxy.proxy import Proxy


@pytest.fixture
def lostack_proxy() -> Iterator[Callable[..., Proxy]]:
    """Return a function that makes a proxy in front of a running Kafka (``HOST:PORT``). Behind the
    test it ends, and fails if a fault has not struck.
    """
    from harness.proxy.proxy import Proxy  # noqa: PLC0415 - only for those who use it

    with ExitStack() as ends:

        def make(
            upstream: str, *, located: Mapping[str, str] | None = None, protocol: str = "kafka"
        ) -> Proxy:
            return ends.enter_context(Proxy(upstream, located=located, protocol=protocol))

        yield make
