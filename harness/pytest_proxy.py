"""The proxy in a project's own tests: a fixture that makes proxies, and fails if a fault has not
struck.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, ParamSpec

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.proxy.proxy import Proxy

P = ParamSpec("P")


@pytest.fixture
def lostack_proxy() -> Iterator[Callable[..., Proxy]]:
    """Return a function that makes a proxy in front of a running Kafka (``HOST:PORT``), and takes
    what :class:`lostack.Proxy` takes. Behind the test it ends, and fails if a fault has not struck.
    """
    from harness.proxy.proxy import Proxy  # noqa: PLC0415 - only for those who use it

    with ExitStack() as ends:

        def ending(make: Callable[P, Proxy]) -> Callable[P, Proxy]:
            def made(*args: P.args, **named: P.kwargs) -> Proxy:
                return ends.enter_context(make(*args, **named))

            return made

        yield ending(Proxy)
