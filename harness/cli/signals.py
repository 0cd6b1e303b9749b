"""The signals that end a command: they are heard however the command was started.

A shell without job control (a script, many CI runners) starts what runs in its background with
SIGINT ignored, and an ignored signal stays ignored over exec. Python then installs no handler:
``kill -INT`` would do nothing, here and in every child.
"""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

_HEARD: Final[
    Mapping[signal.Signals, Callable[[int, FrameType | None], object] | signal.Handlers]
] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGCHLD: signal.SIG_DFL,  # where it is ignored, every child seems to end with 0
}
"""What each signal does by default. SIGHUP is not here: ``nohup`` ignores it on purpose."""


def restore_signals() -> None:
    """Give each signal its default action if this process began with it ignored or blocked.

    Children inherit that.
    """
    for number, default in _HEARD.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGINT and SIGTERM.

    Then cells end, and the report says that it is partial.
    """
    restore_signals()
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(*_: object) -> None:
    raise KeyboardInterrupt
