"""One audit, from two SPECs to findings: here where this process can read both sides, on Spark otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.audit.failures import ELSEWHERE, AuditError, NotOursToReadError, OutgrownError
from harness.audit.here import audit_here, can_read
from harness.audit.spec import NumberedRange, Rows, SpecError, parse, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.audit.findings import Findings
    from harness.audit.spec import Side

ENGINES: Final = ("auto", "here", "spark")


def audit(
    offered: str,
    arrived: str,
    *,
    engine: str = "auto",
    master: str | None = None,
    jars: Sequence[Path] = (),
    say: Callable[[str], None] = lambda _: None,
) -> Findings:
    """Audit two SPECs.

    Raises:
        SpecError: a SPEC cannot be read.
        AuditError: a side cannot be read whole.
    """
    left, right = parse(offered), parse(arrived)
    if isinstance(right, NumberedRange):
        raise SpecError("what arrived cannot be a range: it is a topic, Parquet or a table")
    if engine not in ENGINES:
        raise SpecError(f"no engine named {engine!r}; there are: {', '.join(ENGINES)}")
    here = all(can_read(side) for side in (left, right))
    if engine == "here" and not here:
        raise AuditError(
            "ranges, plain Parquet files, and topics without encryption or log-in are read without Spark, by plain patterns; "
            "the rest is Spark's: --engine spark"
        )
    if here and engine != "spark" and master is None:
        try:
            return audit_here(left, right)
        except OutgrownError as error:
            if engine == "here":
                raise
            say(f"{str(error).removesuffix(f': {ELSEWHERE}')}; it goes on Spark")
        except NotOursToReadError as error:
            if engine == "here":
                raise AuditError(f"{error}: {ELSEWHERE}") from None
            say(f"{error}; Spark's connector reads that")
    return _on_spark(left, right, master or "local[*]", jars, say)


def _on_spark(left: Side, right: Rows, master: str, jars: Sequence[Path], say: Callable[[str], None]) -> Findings:
    from harness.audit.on_spark import audit_on_spark  # noqa: PLC0415 - PySpark takes half a second to import
    from harness.audit.session import spark_session  # noqa: PLC0415

    sides = [side for side in (left, right) if isinstance(side, Rows)]
    for jar in jars:
        if not Path(jar).is_file():
            raise AuditError(f"there is no jar {jar}")
    drivers = tuple(jars) or _drivers(sides, say)
    say(f"starting Spark ({master}) for {' and '.join(shown(side.text) for side in sides)}")
    with spark_session(master=master, say=say, jars=drivers) as spark:
        return audit_on_spark(spark, left, right)


def _drivers(sides: Sequence[Rows], say: Callable[[str], None]) -> tuple[Path, ...]:
    from harness.provision.spark import ensure_driver  # noqa: PLC0415

    return tuple(dict.fromkeys(jar for side in sides if side.kind == "jdbc" for jar in ensure_driver(side.at, say)))
