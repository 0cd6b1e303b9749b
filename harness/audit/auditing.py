"""One audit, from two SPECs to findings: in this process if it can read both sides, otherwise on
Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.audit.failures import ELSEWHERE, AuditError, NotOursToReadError, OutgrownError
from harness.audit.here import audit_here, can_read
from harness.audit.spec import NumberedRange, Rows, SpecError, parse, shown
from harness.model.extras import require

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
    """Audit two SPECs. ``engine``: auto, here or spark; ``say`` shows a line of progress.

    Raises:
        SpecError: a SPEC has a wrong form, what arrived is a range, or the engine is unknown.
        AuditError: a side cannot be read whole.
    """
    left, right = parse(offered), parse(arrived)
    if isinstance(right, NumberedRange):
        raise SpecError("what arrived cannot be a range: give a topic, Parquet files or a table")
    if engine not in ENGINES:
        raise SpecError(f"no engine named {engine!r}; there are: {', '.join(ENGINES)}")
    here = all(can_read(side) for side in (left, right))
    if engine == "here" and not here:
        raise AuditError(
            "only Spark can read these sides: without it lostack reads ranges, local Parquet "
            "files, and topics without encryption or log-in, with plain patterns; use --engine "
            "spark"
        )
    if here and engine != "spark" and master is None:
        try:
            return audit_here(left, right)
        except OutgrownError as error:
            if engine == "here":
                raise
            say(f"{str(error).removesuffix(f': {ELSEWHERE}')}; the audit runs on Spark instead")
        except NotOursToReadError as error:
            if engine == "here":
                raise AuditError(f"{error}: {ELSEWHERE}") from None
            say(f"{error}; Spark's connector reads this side instead")
    return _on_spark(left, right, master or "local[*]", jars, say)


def _on_spark(
    left: Side, right: Rows, master: str, jars: Sequence[Path], say: Callable[[str], None]
) -> Findings:
    require("spark", "an audit on Spark")
    from harness.audit.on_spark import audit_on_spark  # noqa: PLC0415 - PySpark takes half a second to import
    from harness.audit.session import spark_session  # noqa: PLC0415

    sides = [side for side in (left, right) if isinstance(side, Rows)]
    for jar in jars:
        if not Path(jar).is_file():
            raise AuditError(f"the jar {jar} does not exist")
    drivers = tuple(jars) or _drivers(sides, say)
    say(f"starting Spark ({master}) for {' and '.join(shown(side.text) for side in sides)}")
    with spark_session(master=master, say=say, jars=drivers) as spark:
        return audit_on_spark(spark, left, right)


def _drivers(sides: Sequence[Rows], say: Callable[[str], None]) -> tuple[Path, ...]:
    from harness.provision.spark import ensure_driver  # noqa: PLC0415

    return tuple(
        dict.fromkeys(
            jar for side in sides if side.kind == "jdbc" for jar in ensure_driver(side.at, say)
        )
    )
