"""The table of the scoreboard: clients, their versions, and the programs of each."""

from __future__ import annotations

import fnmatch
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.model import safe_files
from harness.model.conversion import convert
from harness.model.failures import UsageError
from harness.model.scenario import Role
from harness.model.semantics import Semantic
from harness.pipelines.failure_points import NO_FAULT
from harness.pipelines.rebalances import REBALANCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

HERE: Final = Path(__file__).parent
TABLE: Final = "clients.toml"
PROGRAMS: Final = HERE / "programs"
WHILE_POSITION: Final = "member-joins-while-position-"
DEFAULT: Final = "as-it-comes"
"""The mode in which a program sets nothing that it need not set."""
NEW_GROUPS: Final = "kip-848"
"""The mode in which a consumer sets nothing but that its group is one of KIP-848."""
TWO_MEMBERS: Final = "two-members"
"""The mode in which two consumers share the work, each as at least once; members come and go."""
MODES: Final[Mapping[Role, Sequence[str]]] = {
    Role.PRODUCER: (DEFAULT, str(Semantic.AT_MOST_ONCE), str(Semantic.AT_LEAST_ONCE)),
    Role.CONSUMER: (
        DEFAULT,
        NEW_GROUPS,
        str(Semantic.AT_MOST_ONCE),
        str(Semantic.AT_LEAST_ONCE),
        TWO_MEMBERS,
    ),
    Role.PROCESSOR: (str(Semantic.EXACTLY_ONCE),),
}
"""The modes of the programs, by role. What a consumer does exactly once is not its client's
doing; nor is what a producer does whose input is a pipe: a pipe's position is in no transaction.
"""


@dataclass(frozen=True, slots=True)
class Client:
    """A client library. ``kind``: what its programs are built with; ``missing``: programs that
    cannot exist, by role or ``role/mode``, with the reason; ``needs``: the least version of the
    toolchain, and ``jars``: the set of jars, by version; ``programs``: main classes by role;
    ``sets``: what the program of a ``role/mode`` sets; ``compiled_with``: of a Node package that
    brings its native part as sources, the environment variables of that build.
    """

    name: str
    language: str
    kind: str
    versions: tuple[str, ...]
    missing: dict[str, str] = field(default_factory=dict)
    needs: dict[str, str] = field(default_factory=dict)
    jars: dict[str, str] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    sets: dict[str, str] = field(default_factory=dict)
    compiled_with: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of its programs."""
        return PROGRAMS / self.name


@dataclass(frozen=True, slots=True)
class Row:
    """One program of one version of a client: the unit that is run, saved and resumed."""

    client: Client
    version: str
    role: Role
    mode: str

    @property
    def id(self) -> str:
        """Its name, as ``kafka-python-3.0.12/consumer/at-least-once``."""
        return f"{self.client.name}-{self.version}/{self.role}/{self.mode}"

    @property
    def slug(self) -> str:
        """Its name in files."""
        return self.id.replace("/", "_")

    @property
    def claims(self) -> Semantic:
        """What it is judged by: who sets nothing expects that nothing is lost."""
        if self.mode in (DEFAULT, NEW_GROUPS, TWO_MEMBERS):
            return Semantic.AT_LEAST_ONCE
        return Semantic(self.mode)

    @property
    def program_mode(self) -> str:
        """What its program is told to be."""
        return str(Semantic.AT_LEAST_ONCE) if self.mode == TWO_MEMBERS else self.mode

    @property
    def points(self) -> tuple[str, ...]:
        """The failure points that are tried; empty: those of the short list of ``lostack check``.

        What befalls one consumer is tried in other rows. A member that joins while a position is
        on its way needs a consumer that saves positions beside its work: these do not.
        """
        if self.mode != TWO_MEMBERS:
            return ()
        joins = (point.id for point in REBALANCES if not point.id.startswith(WHILE_POSITION))
        return (NO_FAULT, *joins)

    @property
    def sources(self) -> str:
        """A digest of the client's programs and locks: a row of other programs is not this one."""
        files = sorted(file for file in self.client.folder.rglob("*") if file.is_file())
        own = [file for file in files if file.suffix != ".pyc"]
        texts = [
            (str(file.relative_to(self.client.folder)), file.read_bytes())
            for file in own
            if file.parent == self.client.folder or self.version in str(file)
        ]
        return hashlib.sha256(repr(texts).encode()).hexdigest()[:12]

    @property
    def missing(self) -> str | None:
        """Why there is no such program; ``None`` where there is one."""
        of = self.client.missing
        return of.get(str(self.role)) or of.get(f"{self.role}/{self.mode}")


def read_clients(file: Path = HERE / TABLE) -> tuple[Client, ...]:
    """Return the clients of the table."""
    data = safe_files.parse_toml(file.read_text(encoding="utf-8"))
    return convert(data["client"], tuple[Client, ...])


def rows_of(clients: Iterable[Client]) -> Iterator[Row]:
    """Yield the rows of the board, client by client."""
    for client in clients:
        for version in client.versions:
            for role, modes in MODES.items():
                for mode in modes:
                    yield Row(client, version, role, mode)


def chosen(rows: Sequence[Row], only: Sequence[str], shard: tuple[int, int]) -> tuple[Row, ...]:
    """Return the rows that match a pattern of ``only`` (all, if there is none) and belong to a
    shard.

    Rows of one client, and those of one mode, go to different shards, so that each shard takes
    about as long.

    Raises:
        UsageError: a pattern matches nothing.
    """
    for pattern in only:
        if not any(_means(pattern, row) for row in rows):
            raise UsageError(
                f"no row of the scoreboard matches {pattern!r}; lostack scoreboard --list shows all"
            )
    meant = [row for row in rows if not only or any(_means(pattern, row) for pattern in only)]
    number, of = shard
    return tuple(row for place, row in enumerate(meant) if (place + place // of) % of == number - 1)


def _means(pattern: str, row: Row) -> bool:
    """Whether a glob means a row, by its beginning; the version may be left out."""
    names = (row.id, f"{row.client.name}/{row.role}/{row.mode}")
    return any(fnmatch.fnmatch(name, f"{pattern}*") for name in names)


def read_shard(text: str) -> tuple[int, int]:
    """Return the numbers of ``2/4``.

    Raises:
        UsageError: it is no such text.

    >>> read_shard("2/4")
    (2, 4)
    """
    number, slash, of = text.partition("/")
    if not slash or not (number.isdecimal() and of.isdecimal()) or not 1 <= int(number) <= int(of):
        raise UsageError(f"--shard {text}: give which of how many, as 2/4")
    return int(number), int(of)
