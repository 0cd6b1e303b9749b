"""A Java program that runs with this machine's Java, or with the Java of an image that sees the
jars at the same paths.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class JavaProgram:
    """How a JVM is started: its Java, options and class path. ``archive``: the class-data archive
    that ``flags`` name, if any.
    """

    java: Path
    flags: tuple[str, ...]
    jars: tuple[Path, ...]
    main: str
    archive: Path | None = None

    def command(self, *words: str, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the command line. ``flags``: more options for the JVM. ``words``: the program's
        main class and arguments.
        """
        return (
            str(self.java),
            *self.flags,
            *flags,
            "-cp",
            os.pathsep.join(map(str, self.jars)),
            self.main,
            *words,
        )

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of all files that the JVM reads."""
        return tuple(
            dict.fromkeys(file.parent for file in (*self.jars, self.archive) if file is not None)
        )

    def contained(self) -> JavaProgram:
        """Return the same program for a container, with the Java of the container's image."""
        return replace(self, java=Path("java"))
