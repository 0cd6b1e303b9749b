"""Find a PostgreSQL server on this machine: by a setting, on the PATH, or in the usual folders. It
is never fetched.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model.failures import EnvironmentFailure
from harness.provision.account import stand_in_name
from harness.provision.cache import expanded
from harness.provision.certificates import private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

VARIABLE: Final = "LOSTACK_POSTGRES"
"""The environment variable that names the folder of the server's programs."""
USUAL: Final = ("/usr/lib/postgresql", "/usr/pgsql-*", "/opt/homebrew/opt", "/usr/local/opt")
PROGRAMS: Final = ("postgres", "initdb")
INSTALL: Final = (
    f"install one (Debian: apt-get install postgresql), or set {VARIABLE} to the folder of its "
    "programs"
)
ANSWER_WITHIN_S: Final = 30.0
OTHER_USERS: Final = ("postgres", "nobody")
"""The users to run the server as if lostack runs as root, because the server refuses to run as
root.
"""


@dataclass(frozen=True, slots=True)
class PostgresInstall:
    """A server that can be started: the folder of its programs, its version, and its user
    (``None``: the current user).
    """

    programs: Path
    version: str
    user: str | None

    def command(self, program: str, *words: str) -> tuple[str, ...]:
        """Return the command that runs one of its programs as the server's user. The program still
        dies with the harness.
        """
        plain = (str(self.programs / program), *words)
        if self.user is None:
            return plain
        return (
            "setpriv",
            f"--reuid={self.user}",
            f"--regid={pwd.getpwnam(self.user).pw_gid}",
            "--clear-groups",
            "--pdeathsig=KILL",
            *plain,
        )

    def home(self, folder: Path) -> Path:
        """Return the folder for its files: ``folder``, or a folder for temporary files if the
        server's user cannot enter it.
        """
        folder = folder.absolute()
        if self._closed(folder) is None:
            return folder
        name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir(), f"lostack-postgres-{name}")

    def own(self, folder: Path) -> Path:
        """Make the folder :meth:`home`, owned by the server's user, and return it.

        Raises:
            EnvironmentFailure: the server's user cannot enter either folder, or the folder for
                temporary files exists already.
        """
        home = self.home(folder)
        try:
            home.mkdir(parents=True, exist_ok=home == folder.absolute(), mode=0o700)
        except FileExistsError:
            raise EnvironmentFailure(
                f"{home} exists already, but PostgreSQL needs a new folder there: remove it"
            ) from None
        if self.user is not None:
            account = pwd.getpwnam(self.user)
            os.chown(home, account.pw_uid, account.pw_gid)
        if (closed := self._closed(home)) is not None:
            raise EnvironmentFailure(
                f"PostgreSQL refuses to run as root, and the user {self.user} cannot enter "
                f"{closed}: set TMPDIR to a folder that every user can enter, or run as another "
                "user"
            )
        return home

    def private(self, file: Path, text: str) -> Path:
        """Write a file that only the server's user may read; return it."""
        private(file, text.encode())
        if self.user is not None:
            account = pwd.getpwnam(self.user)
            os.chown(file, account.pw_uid, account.pw_gid)
        return file

    def forget(self, folder: Path) -> None:
        """Remove the server's files outside of ``folder``."""
        if (home := self.home(folder)) != folder.absolute():
            shutil.rmtree(home, ignore_errors=True)

    def _closed(self, folder: Path) -> Path | None:
        """Return the first folder on the path that the server's user cannot enter; ``None`` if
        there is none.
        """
        if self.user is None:
            return None
        uid = pwd.getpwnam(self.user).pw_uid
        there = (each for each in folder.absolute().parents if each.exists())
        return next(
            (
                each
                for each in there
                if not each.stat().st_mode & 0o001 and each.stat().st_uid != uid
            ),
            None,
        )


def find_postgres(environ: Mapping[str, str] = os.environ) -> PostgresInstall | None:
    """Return the newest server of this machine, or the one that ``LOSTACK_POSTGRES`` names;
    ``None`` if there is none.

    Raises:
        EnvironmentFailure: the setting names no server, or lostack runs as root and no other user
            can run the server.
    """
    if chosen := environ.get(VARIABLE):
        version = _version(expanded(chosen))
        if version is None:
            raise EnvironmentFailure(
                f"{VARIABLE} is set, but {chosen} does not hold working programs postgres and "
                "initdb"
            )
        return PostgresInstall(expanded(chosen), version, _user())
    found = [(each, version) for each in _places(environ) if (version := _version(each))]
    if not found:
        return None
    programs, version = max(
        found, key=lambda one: [int(word) for word in re.findall(r"\d+", one[1])]
    )
    return PostgresInstall(programs, version, _user())


def why_no_postgres() -> str | None:
    """Say in a sentence why no server can be started on this machine; return ``None`` if one can.

    Raises:
        EnvironmentFailure: the setting names a folder without a server. That is an error: the user
            wants this server's cells.
    """
    try:
        found = find_postgres()
    except EnvironmentFailure as error:
        if VARIABLE in os.environ:
            raise
        return str(error)
    return None if found else f"no PostgreSQL server is installed here: {INSTALL}"


def ensure_postgres() -> PostgresInstall:
    """Return the server that :func:`find_postgres` finds.

    Raises:
        EnvironmentFailure: there is no server. The message is one line and says what helps.
    """
    found = find_postgres()
    if found is None:
        raise EnvironmentFailure(f"no PostgreSQL server is installed here: {INSTALL}")
    return found


def _places(environ: Mapping[str, str]) -> Iterator[Path]:
    if on_path := shutil.which("postgres", path=environ.get("PATH", os.defpath)):
        yield Path(on_path).resolve().parent
    for usual in USUAL:
        root = Path(usual)
        for base in sorted(root.parent.glob(root.name)):
            yield from (base / "bin", *sorted(base.glob("*/bin")))


@functools.cache
def _version(programs: Path) -> str | None:
    """Return the version of the server in a folder; ``None`` if ``postgres`` or ``initdb`` does not
    run.
    """
    said = ""
    for program in PROGRAMS:
        try:
            done = subprocess.run(
                [programs / program, "--version"],
                capture_output=True,
                text=True,
                check=False,
                timeout=ANSWER_WITHIN_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode != 0:
            return None
        said = said or done.stdout
    match = re.search(r"\d+(\.\d+)*", said)
    return match[0] if match else None


def _user() -> str | None:
    """Return the user to run the server as; ``None`` for the current user."""
    if (unknown := stand_in_name()) is not None:
        raise EnvironmentFailure(
            f"PostgreSQL refuses to run as a user without an account ({unknown}): add the user to "
            "/etc/passwd, or run lostack as another user"
        )
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    user = next((name for name in OTHER_USERS if name in known), None)
    if user is None or shutil.which("setpriv") is None:
        raise EnvironmentFailure(
            "PostgreSQL refuses to run as root: install setpriv (util-linux) and add a user "
            "postgres or nobody, or run lostack as another user"
        )
    return user
