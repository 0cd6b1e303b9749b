"""Says whether lostack can run on this machine's operating system."""

from __future__ import annotations

import functools
import os
import sys


@functools.cache
def glibc() -> str | None:
    """Return the C library, such as ``glibc 2.36``; ``None`` if it is another one."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or None
    except (OSError, ValueError):  # musl knows no such name
        return None


def why_not_here() -> str | None:
    """Say in a sentence why lostack does not run on this system; ``None`` if it does."""
    if not sys.platform.startswith("linux") or glibc():
        return None
    return (
        "lostack needs a Linux with glibc, and this one has another C library (musl, as Alpine "
        "has): use Debian, Ubuntu, Fedora or an image of theirs"
    )
