"""A program on jars: run by the Java of this machine, or by that of an image which sees the jars where they lie here."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class JavaProgram:
    """What a JVM is started from. ``archive``: the class-data archive of its jars, if ``flags`` name one."""

    java: Path
    flags: tuple[str, ...]
    jars: tuple[Path, ...]
    main: str
    archive: Path | None = None

    def command(self, *words: str, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return its command line; ``flags`` are more of the JVM, ``words`` the program's own."""
        return (str(self.java), *self.flags, *flags, "-cp", os.pathsep.join(map(str, self.jars)), self.main, *words)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of all that the JVM reads."""
        return tuple(dict.fromkeys(file.parent for file in (*self.jars, self.archive) if file is not None))

    def contained(self) -> JavaProgram:
        """Return the same for a container: by the Java of its image."""
        return replace(self, java=Path("java"))
