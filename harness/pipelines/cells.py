"""The cells of a declared pipeline, one for each failure point, and the records that they offer."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.faults import (
    Compacted,
    InBacklog,
    InBurst,
    InTurn,
    PartitionFilled,
    StartLate,
    TopicAppears,
    TopicMadeAnew,
)
from harness.model.cell import Cell, Load, at_edge, make_load
from harness.model.identity import Identity
from harness.model.scenario import NotApplicable, Scenario
from harness.model.secrets import masked_settings
from harness.model.semantics import Guarantee
from harness.model.states import Hop
from harness.pipelines.aggregates import AggregateKind, amounts, spread
from harness.pipelines.braces import fill
from harness.pipelines.declaration import RepeatedIdError
from harness.pipelines.failure_points import NO_FAULT, SYSTEM
from harness.pipelines.in_turn import too_few
from harness.pipelines.inputs import InputKind
from harness.pipelines.outputs import OutputKind
from harness.pipelines.refusing import DeclarationError
from harness.pipelines.shares import (
    aimed,
    followed,
    half_of,
    in_turn,
    middle_third,
    outlived,
    share_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from harness.model.record import Record
    from harness.pipelines.declaration import Pipeline
    from harness.pipelines.shares import Share

LAST_WORD = "z"
"""The last character of a token. A token that was cut short lacks it, and is not recognised."""


@dataclass(frozen=True, slots=True)
class DeclaredCell(Cell):
    """A cell: one failure point of one declared pipeline."""

    declared: Pipeline
    brief: bool = dataclasses.field(default=False, compare=False)
    """Whether this run need not wait for late results, because another run without a fault does."""
    among: frozenset[int] | None = dataclasses.field(default=None, compare=False)
    """The positions of the records from which the target is drawn; ``None``: any."""

    @property
    def pipeline(self) -> str:
        """The pipeline's declared name."""
        return self.declared.name

    @property
    def identity(self) -> Identity:
        """Where lostack finds a record's id in a message or a result."""
        return self.declared.id or Identity(rf"{self.key}\.(k\d+-\d+)\.{LAST_WORD}")

    def saved_settings(self) -> dict[str, Any]:
        """Return the declaration, without its secrets."""
        plain: dict[str, Any] = masked_settings(dataclasses.asdict(self.declared))
        return plain | {
            "directory": str(self.declared.directory),
            "id": dataclasses.asdict(self.identity),
        }

    def logs(self) -> dict[str, int]:
        """Return the number of partitions of each log that is read at the end. All topics have the
        same.
        """
        if not self.declared.dialect.logs:
            return {}
        hops = {
            Hop.TOPIC: True,
            Hop.SINK: self.declared.output.kind is OutputKind.TOPIC,
            Hop.ASIDE: bool(self.declared.dead_letters),
        }
        return {str(hop): self.declared.partitions for hop, there in hops.items() if there}

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are offered records, if there are several."""
        return self.declared.input.topics

    def topic_of(self) -> dict[str, str]:
        """Return the topic that each record is offered in, by its id."""
        at = self._topic_at()
        return {record.id: at[record.position] for record in self.load().records}

    def _topic_at(self) -> dict[int, str]:
        """Return the topic of each record by its position. All records of a key are in one: the
        keys take turns.
        """
        topics, records = self.declared.between, self.offered()
        keys = {each: at for at, each in enumerate(dict.fromkeys(r.key for r in records))}
        return {r.position: topics[keys[r.key] % len(topics)] for r in records}

    def line(self, record: Record) -> str:
        """Return the line that offers a record. The record's id is afterwards found in
        this line.
        """
        values = {"id": self._token(record), "key": record.key, "position": record.position}
        if self.sums:
            values["amount"] = self._amounts()[record.id]
        return fill(self.declared.input.line, values)

    @property
    def sums(self) -> bool:
        """Whether the pipeline's totals show how often each record was counted."""
        return self.declared.aggregate is not None and "{amount}" in self.declared.input.line

    @property
    def ordered(self) -> bool:
        """Whether the pipeline claims that the records of a key are recorded in their order."""
        return bool(self.declared.order)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The session guarantees that the pipeline claims."""
        return tuple(map(Guarantee, self.declared.guarantees))

    def totals(self) -> dict[str, dict[str, int]]:
        """Return what each record adds to a total, by key and record id. The key of a total of all
        records is ``""``.

        Raises:
            TypeError: the pipeline has no ``[aggregate]``.
        """
        aggregate, found = self.declared.aggregate, defaultdict[str, dict[str, int]](dict)
        if aggregate is None:
            raise TypeError(f"{self.declared.name} has no [aggregate]")
        own = self._amounts() if self.sums else {}
        for record in self._drawn().records:
            adds = own.get(record.id, record.position) if aggregate.of is AggregateKind.SUM else 1
            found[record.key if aggregate.keyed else ""][self._found(record)] = adds
        return dict(found)

    def _amounts(self) -> dict[str, int]:
        return amounts(self._drawn().records)

    def lines(self) -> dict[str, str]:
        """Return the line of each record by its id, in the order of the source."""
        return {self._found(record): self.line(record) for record in self._drawn().records}

    def load(self) -> Load:
        """Return the records, named by the id that is found in their lines, and the target.

        Raises:
            DeclarationError: no id is found in a line.
            RepeatedIdError: several lines have the same id.
        """
        drawn = self._drawn()
        records = [
            replace(record, id=self._found(record), key=self._key(record))
            for record in drawn.records
        ]
        [(found, count)] = Counter(record.id for record in records).most_common(1)
        if count > 1:
            lines = " and ".join(
                [self.line(record) for record in drawn.records if self._found(record) == found][:2]
            )
            raise RepeatedIdError(
                f"void: the input has the id {found!r} {count} times, as in {lines}: put a "
                "text that differs from record to record ({id} or {position}) into line, and let [id] find it"  # noqa: E501
            )
        return drawn.renamed(records)

    @property
    def of_topic(self) -> frozenset[int] | None:
        """The positions of the records that are offered in the scenario's topic; ``None``: it names
        none.
        """
        topic = self.scenario.topic
        at = self._topic_at() if topic else {}
        return frozenset(each for each, of in at.items() if of == topic) if topic else None

    def _drawn(self) -> Load:
        fault, salt = self.scenario.fault, f"{self.seed}/{self.scenario.id}"
        among = self.of_topic if self.among is None else self.among
        drawn = self._made(NO_FAULT if self.fixed else self.scenario.id)
        if isinstance(fault, InTurn):
            drawn = in_turn(drawn, fault.targets, among, salt)
        elif self.scenario.edge is not None:
            drawn = at_edge(drawn, self.scenario.edge, among)
        elif among is not None:
            drawn = aimed(drawn, among, salt)
        if not self.sums:
            return drawn
        keys = spread(drawn.records)
        return drawn.renamed([replace(record, key=keys[record.id]) for record in drawn.records])

    @property
    def fixed(self) -> bool:
        """Whether it offers the records of the dry run."""
        return self.among is not None or len(self.topics) > 1

    def _made(self, scenario: str) -> Load:
        salt = f"{scenario}/{self.semantic}"
        return make_load(seed=self.seed, salt=salt, count=self.records, unit=1)

    def offered(self) -> Sequence[Record]:
        """Return the records that are offered if the target is drawn from some of them."""
        return self._made(NO_FAULT).records

    def in_hand(self, record: Record) -> str:
        """Return the id by which the user's programs know a record: the whole token, of which
        lostack looks for a part.
        """
        return record.id if self.declared.id else self._token(record)

    def _key(self, record: Record) -> str:
        """Return the record's key. If the producer makes the records itself, keys are unknown and
        order is not checked.
        """
        return self._found(record) if self.declared.input.kind is InputKind.OWN else record.key

    def _token(self, record: Record) -> str:
        return f"{self.key}.{record.id}.{LAST_WORD}"

    def _found(self, record: Record) -> str:
        line = self.line(record)
        found = self.identity.in_text(line) or replace(self.identity, json="").in_text(
            self._token(record)
        )
        if found is None:
            raise DeclarationError(f"id: no id is found in the offered line: {line}")
        return found


def cells_of(
    pipeline: Pipeline, scenarios: Iterable[Scenario], *, seed: int = 1, records: int | None = None
) -> tuple[DeclaredCell, ...]:
    """Return the cells of scenarios made by :func:`failure_points`."""
    return tuple(
        DeclaredCell(
            scenario=scenario,
            semantic=pipeline.claims,
            system=SYSTEM,
            client=pipeline.name,
            runtime="process",
            seed=seed,
            records=records or pipeline.records,
            declared=pipeline,
        )
        for scenario in scenarios
    )


def aim(cell: DeclaredCell, shares: Mapping[str, Share]) -> DeclaredCell:
    """Return the cell with a target that its stage handles. If none of those records is in the
    middle third, the cell does not apply.

    ``shares``: what each stage handled in the dry run.
    """
    pipeline, fault = cell.declared, cell.scenario.fault
    if isinstance(cell.expectation, NotApplicable):
        return cell
    if isinstance(fault, PartitionFilled | StartLate | TopicAppears | TopicMadeAnew):
        reader = shares.get(str(fault.reader))
        some = None if reader is None else reader.some(sent=False)
        if some is not None:
            return _never(
                cell,
                f"only {len(some)} of {pipeline.records} records came to the {fault.reader} in "
                "the dry run: nothing shows when one is there for it",
            )
    among = share_of(fault, pipeline.dialect, shares)
    if (of_topic := cell.of_topic) is not None:
        among = of_topic if among is None else among & of_topic
        if not among:
            return _never(cell, f"no record of {cell.scenario.topic} came there in the dry run")
    if isinstance(fault, TopicMadeAnew) and fault.longer is not None:
        among = half_of(
            among or frozenset(range(1, cell.records + 1)), cell.records, first=fault.longer
        )
    if isinstance(fault, InBacklog | InBurst):
        among = followed(cell.offered(), among)
    if isinstance(fault, Compacted):
        among = outlived(cell.offered(), among)
        if not among:
            return _never(
                cell,
                "no record of the middle third, where faults strike, has two later ones of its "
                f"key: offer more (records = {2 * pipeline.records})",
            )
    why = _nowhere(cell, among)
    return _never(cell, why) if why else replace(cell, among=among)


def _nowhere(cell: DeclaredCell, among: frozenset[int] | None) -> str | None:
    """Say why no record at these positions (``None``: any) can be a target where the fault strikes,
    or return ``None``.
    """
    records, fault = cell.declared.records, cell.scenario.fault
    if isinstance(fault, InTurn):
        return too_few(cell.records, fault.targets, among)
    if among is None or cell.scenario.edge is not None or middle_third(among, cell.records):
        return None
    return (
        f"only {len(among)} of {records} records came there in the dry run, and none of the middle "
        f"third, where faults strike: offer more (records = {2 * records})"
    )


def _never(cell: DeclaredCell, because: str) -> DeclaredCell:
    never = NotApplicable(because)
    return replace(cell, scenario=replace(cell.scenario, expect={cell.semantic: never}))
