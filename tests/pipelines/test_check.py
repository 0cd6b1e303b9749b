"""Real pipelines on a real broker: the right one is kept, each wrong one is convicted, of exactly
what it does wrong.
"""

from __future__ import annotations

import dataclasses
import io
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.judge.verdict import Kind
from harness.matrix.checking import Check
from harness.matrix.progress import make_progress
from harness.matrix.seen import seen_in
from harness.model import events as kinds
from harness.model.history import HISTORY, read_history
from harness.model.prediction import Select
from harness.pipelines import read_pipeline
from harness.report.record import advice
from harness.systems.declared.system import DeclaredSystem
from harness.systems.declared.transport.log import HELD_BACK_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.matrix.listener import Progress
    from harness.pipelines.traffic import StageTraffic
    from harness.saved import CellResult

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = Path(__file__).with_name("programs")
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


class Silent(io.StringIO):
    """Says nothing."""

    def write(self, _: str) -> int:
        """Take it."""
        return 0


def check(
    system: DeclaredSystem,
    reports: Path,
    file: Path,
    *only: str,
    seen: Mapping[str, StageTraffic] | None = None,
    seed: int = 1,
) -> dict[str, CellResult]:
    """Run a pipeline dry, then at these failure points. Whose programs are never late need no long
    patience. ``seen``: what the dry run would show, in its place.
    """
    asked = _asked(system, reports, file, seed)
    with make_progress(Silent()) as progress:
        if seen is None and not only:
            return {"none": asked.dry_run(progress)}
        seen = seen or _seen(asked, only, progress)
        cells, rest = asked.plan(seen, only)
        assert not rest
        saved = asked.faults(cells, rest, progress)
    return {result.plan.scenario: result for result in saved.results}


def rehearse(
    system: DeclaredSystem, reports: Path, file: Path, *only: str
) -> Mapping[str, StageTraffic]:
    """Return what the runs without a fault show that these points need."""
    with make_progress(Silent()) as progress:
        return _seen(_asked(system, reports, file), only, progress)


def _asked(system: DeclaredSystem, reports: Path, file: Path, seed: int = 1) -> Check:
    pipeline = dataclasses.replace(read_pipeline(file), patience_s=6.0)
    return Check(pipeline, system, reports, "pytest", seed)


def _seen(asked: Check, only: Sequence[str], progress: Progress) -> Mapping[str, StageTraffic]:
    dry = asked.dry_run(progress)
    assert dry.verdict.kind is Kind.KEPT, f"without a fault: {dry.verdict.reason}"
    return asked.rehearsals(seen_in(dry), only, progress)[0]


def test_a_right_pipeline_is_kept(system: DeclaredSystem, tmp_path: Path) -> None:
    """Work first, position after; the producer resends: nothing is lost, and only what may be is
    duplicated.
    """
    points = ("producer-crash-before-ack", "request-lost", "commit-lost", "commit-ack-lost")
    found = check(system, tmp_path, EXAMPLES / "orders" / "pipeline.toml", *points)
    assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
        points, Kind.KEPT
    ), [result.verdict.reason for result in found.values()]
    assert all(result.verdict.fired == 1 for result in found.values())
    target = found["producer-crash-before-ack"]
    assert target.judgement.account.duplicated == {target.plan.target}
    twice = found["commit-lost"]
    assert twice.judgement.account.duplicated == {twice.plan.target}


@pytest.mark.rest
def test_what_totals_have_counted_twice_or_not_at_all_is_named(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """A sum says of which record it holds too much; where the position is saved first, which one it
    has missed.
    """
    shutil.copytree(EXAMPLES / "totals", tmp_path / "examples" / "totals")
    shutil.copytree(EXAMPLES / "orders", tmp_path / "examples" / "orders")
    file = tmp_path / "examples" / "totals" / "pipeline.toml"
    found = check(system, tmp_path / "kept", file, "commit-lost")["commit-lost"]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.judgement.account.duplicated == {found.plan.target}

    program = file.with_name("consumer.py")
    text = program.read_text(encoding="utf-8").replace("    consumer.commit()\n", "")
    program.write_text(
        text.replace("    payment = ", "    consumer.commit()\n    payment = "), encoding="utf-8"
    )
    found = check(system, tmp_path / "broken", file, "commit-ack-lost")["commit-ack-lost"]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.judgement.account.lost == {found.plan.target}
    assert found.verdict.by_fault


@pytest.mark.rest
@pytest.mark.parametrize("anew", ["cell", "once"])
def test_a_service_that_dies_is_no_excuse(
    system: DeclaredSystem, tmp_path: Path, anew: str
) -> None:
    """Who waits for its answer loses nothing; who goes on without it loses what was on its way. It
    is back before the next.
    """
    shutil.copytree(PROGRAMS.parents[2] / "examples" / "orders", tmp_path / "examples" / "orders")
    folder = shutil.copytree(
        PROGRAMS / "with-store", tmp_path / "tests" / "pipelines" / "programs" / "with-store"
    )
    file = folder / "pipeline.toml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("down_s", f'anew = "{anew}"\ndown_s'),
        encoding="utf-8",
    )
    points = (
        ("service-crash", "service-pause", "service-crash-behind-work")
        if anew == "cell"
        else ("service-crash",)
    )
    found = check(system, tmp_path / "kept", file, *points)
    assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
        points, Kind.KEPT
    ), [result.verdict.reason for result in found.values()]
    if anew == "cell":
        careless = file.read_text(encoding="utf-8").replace("careful", "careless")
        file.write_text(careless, encoding="utf-8")
        found = check(system, tmp_path / "broken", file, "service-crash")
        broken = found["service-crash"]
        assert broken.verdict.kind is Kind.BROKEN, broken.verdict.reason
        assert broken.plan.target in broken.judgement.account.lost
        assert broken.verdict.by_fault


def dead_letters(folder: Path, file: str, *changes: tuple[str, str]) -> Path:
    """Return a declaration of the programs with dead letters, with changes in its text."""
    if not folder.exists():
        shutil.copytree(EXAMPLES / "orders", folder / "examples" / "orders")
        shutil.copytree(
            PROGRAMS / "dead-letters", folder / "tests" / "pipelines" / "programs" / "dead-letters"
        )
    one = folder / "tests" / "pipelines" / "programs" / "dead-letters" / file
    text = one.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    changed = one.with_name("changed.toml")
    changed.write_text(text, encoding="utf-8")
    return changed


@pytest.mark.rest
def test_dead_letters_are_a_permitted_end_if_they_are_declared(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Whoever saves the position before it sets a record aside loses it, and so does whoever skips
    it. Without the declaration, the verdict says where the records are.
    """
    point, poison = "booking-crash-before-send", 4
    file = dead_letters(tmp_path / "all", "pipeline.toml")
    right = check(system, tmp_path / "right", file, point, "commit-lost")
    assert {result.verdict.kind for result in right.values()} == {Kind.KEPT}, [
        result.verdict.reason for result in right.values()
    ]
    aside = [result.judgement.account.counts["set_aside"] for result in right.values()]
    assert aside == [poison] * 2
    assert right[point].plan.target in right[point].judgement.account.set_aside

    file = dead_letters(tmp_path / "all", "pipeline.toml", ("booking.py right", "booking.py early"))
    early = check(system, tmp_path / "early", file, point)[point]
    assert early.verdict.kind is Kind.BROKEN, early.verdict.reason
    assert early.judgement.account.lost == {early.plan.target}

    file = dead_letters(tmp_path / "all", "pipeline.toml", ("booking.py right", "booking.py skips"))
    skips = check(system, tmp_path / "skips", file)["none"]
    assert (skips.verdict.kind, skips.judgement.account.counts["lost"]) == (Kind.BROKEN, poison)

    word = 'dead_letters = "orders.dlq"\n'
    file = dead_letters(tmp_path / "all", "pipeline.toml", (word, ""))
    silent = check(system, tmp_path / "silent", file)["none"]
    assert silent.verdict.kind is Kind.BROKEN
    assert f"forbids loss: {poison} set aside in orders.dlq (" in silent.verdict.reason
    assert 'say so in the declaration (dead_letters = "orders.dlq")' in "\n".join(advice(silent))


@pytest.mark.rest
def test_who_gets_only_some_records_is_struck_at_one_of_these(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """A reader of dead letters, right and wrong: it saves its position before the work."""
    points = ("undertaker-commit-ack-lost", "undertaker-commit-lost", "undertaker-crash-at-write-1")
    file = dead_letters(tmp_path / "all", "undertaker.toml")
    right = check(system, tmp_path / "right", file, *points)
    assert {name: result.verdict.kind for name, result in right.items()} == dict.fromkeys(
        points, Kind.KEPT
    ), [result.verdict.reason for result in right.values()]
    assert all(result.verdict.fired == 1 for result in right.values())
    assert {result.plan.target.split("-")[1] for result in right.values()} == {"24"}

    wrong = ("undertaker.py right", "undertaker.py early")
    for word in ("", 'dead_letters = "orders.dlq"\n'):
        topics = 'topics = ["orders", "orders.retry", "orders.dlq"]\n'
        file = dead_letters(tmp_path / "all", "undertaker.toml", wrong, (topics, topics + word))
        early = check(system, tmp_path / f"early-{bool(word)}", file, points[0])[points[0]]
        assert early.verdict.kind is Kind.BROKEN, early.verdict.reason
        assert early.judgement.account.lost == {early.plan.target}


@pytest.mark.rest
def test_two_stages_of_a_role_are_told_apart(system: DeclaredSystem, tmp_path: Path) -> None:
    """Of two consumers with groups of their own, the one that is meant dies; the other one's work
    is its own.
    """
    shutil.copytree(EXAMPLES / "orders", tmp_path / "orders")
    file = tmp_path / "orders" / "pipeline.toml"
    audit = (
        file.with_name("consumer.py").read_text(encoding="utf-8").replace('"billing"', '"audit"')
    )
    file.with_name("audit.py").write_text(audit, encoding="utf-8")
    second = (
        '[[stage]]\nrole = "consumer"\nname = "audit"\ncommand = "{python} audit.py '
        '{work}/audit.db"\n'
    )
    file.write_text(
        file.read_text(encoding="utf-8").replace("[input]", f"{second}\n[input]"), encoding="utf-8"
    )
    found = check(system, tmp_path / "reports", file, "consumer-commit-lost", "audit-commit-lost")
    mine, other = found["consumer-commit-lost"], found["audit-commit-lost"]
    assert [each.verdict.kind for each in (mine, other)] == [Kind.KEPT] * 2, [
        each.verdict.reason for each in (mine, other)
    ]
    assert mine.judgement.account.duplicated == {mine.plan.target}
    assert not other.judgement.account.duplicated, "what audit writes is not the output"


@pytest.mark.rest
def test_ids_inside_avro_values_are_found_on_the_wire_and_in_logs(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    point = "processor-crash-before-ack"
    found = check(system, tmp_path, PROGRAMS / "avro" / "pipeline.toml", point)[point]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.judgement.account.duplicated == {found.plan.target}


@pytest.mark.rest
def test_ids_are_found_by_the_schemas_of_a_registry(system: DeclaredSystem, tmp_path: Path) -> None:
    """The registry is a service of the cell: the wire and the observer ask it, by the id that the
    producer was given.
    """
    points = ("processor-crash-before-ack", "service-crash")
    found = check(system, tmp_path / "kept", PROGRAMS / "registered" / "pipeline.toml", *points)
    assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
        points, Kind.KEPT
    ), [result.verdict.reason for result in found.values()]
    crashed = found["processor-crash-before-ack"]
    assert crashed.judgement.account.duplicated == {crashed.plan.target}
    folder = shutil.copytree(PROGRAMS / "registered", tmp_path / "programs" / "registered")
    shutil.copytree(PROGRAMS / "avro", tmp_path / "programs" / "avro")
    program = folder / "producer.py"
    program.write_text(
        program.read_text(encoding="utf-8").replace(
            '["id"].to_bytes', '["id"].__add__(41).to_bytes'
        ),
        encoding="utf-8",
    )
    dry = check(system, tmp_path / "void", folder / "pipeline.toml")["none"]
    assert dry.verdict.kind is Kind.VOID
    assert (
        "a value cannot be read: there is no schema 42 of http://127.0.0.1:" in dry.verdict.reason
    )


@pytest.mark.rest
def test_what_is_recorded_out_of_order_is_counted(system: DeclaredSystem, tmp_path: Path) -> None:
    """A program that does one record behind the next of its key breaks an order that it claims, by
    this one record.
    """
    shutil.copytree(EXAMPLES / "orders", tmp_path / "examples" / "orders")
    folder = shutil.copytree(
        PROGRAMS / "in-order", tmp_path / "tests" / "pipelines" / "programs" / "in-order"
    )
    file = folder / "pipeline.toml"
    right = check(system, tmp_path / "right", file, "commit-lost")["commit-lost"]
    assert right.verdict.kind is Kind.KEPT, right.verdict.reason
    assert right.judgement.account.duplicated == {right.plan.target}
    assert right.judgement.account.counts["reordered"] == 0

    file.write_text(
        file.read_text(encoding="utf-8").replace(" in-order", " swaps"), encoding="utf-8"
    )
    wrong = check(system, tmp_path / "wrong", file)["none"]
    assert wrong.verdict.kind is Kind.BROKEN, wrong.verdict.reason
    account = wrong.judgement.account
    assert (account.counts["reordered"], account.counts["lost"], account.counts["duplicated"]) == (
        1,
        0,
        0,
    )
    said = (wrong.directory / "logs" / "consumer.log").read_text(encoding="utf-8").splitlines()
    [aside] = [line.split()[1] for line in said if line.startswith("aside ")]
    assert account.reordered[0] in aside
    assert "1 reordered" in wrong.verdict.reason


@pytest.mark.rest
def test_an_invariant_is_asked_of_the_output_at_rest(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    shutil.copytree(EXAMPLES / "orders", tmp_path / "orders")
    file = tmp_path / "orders" / "pipeline.toml"
    query = "SELECT count(*) FROM orders"
    text = file.read_text(encoding="utf-8") + f"[invariant]\nquery = '{query}'\nequals = "
    file.write_text(f"{text}48\n", encoding="utf-8")
    assert check(system, tmp_path / "holds", file)["none"].verdict.kind is Kind.KEPT
    file.write_text(f"{text}47\n", encoding="utf-8")
    found = check(system, tmp_path / "does-not", file)["none"].verdict
    assert found.kind is Kind.BROKEN
    assert "SELECT count(*) FROM orders gives 48, and must give 47" in found.reason


@pytest.mark.rest
def test_what_a_stage_is_refused_is_what_it_names(system: DeclaredSystem, tmp_path: Path) -> None:
    """An idempotent client sends again what was stored, and what was not; a member that is none
    does the record's work again.
    """
    shutil.copytree(EXAMPLES / "orders", tmp_path / "orders")
    file = tmp_path / "orders" / "pipeline.toml"
    text = file.read_text(encoding="utf-8")
    producer = '["Produce NOT_ENOUGH_REPLICAS", "Produce REQUEST_TIMED_OUT done"]'
    consumer = '["OffsetCommit UNKNOWN_MEMBER_ID", "Heartbeat NOT_COORDINATOR"]'
    text = text.replace('role = "producer"', f'role = "producer"\nrefusals = {producer}')
    file.write_text(
        text.replace('role = "consumer"', f'role = "consumer"\nrefusals = {consumer}'),
        encoding="utf-8",
    )
    points = (
        "producer-produce-refused-not-enough-replicas",
        "producer-produce-refused-request-timed-out-done",
        "consumer-offsetcommit-refused-unknown-member-id",
        "consumer-heartbeat-refused-not-coordinator",
    )
    found = check(system, tmp_path / "reports", file, *points)
    assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
        points, Kind.KEPT
    ), [result.verdict.reason for result in found.values()]
    twice = {
        name
        for name, result in found.items()
        if result.plan.target in result.judgement.account.duplicated
    }
    assert twice == {"consumer-offsetcommit-refused-unknown-member-id"}


@pytest.mark.rest
def test_what_a_broken_broker_ends_is_started_again(system: DeclaredSystem, tmp_path: Path) -> None:
    """The consumer gives up where its commit fails; a supervisor starts it, and its promise is
    judged over both lives.
    """
    point = "broker-crash-before-position"
    found = check(system, tmp_path, EXAMPLES / "orders" / "pipeline.toml", point)[point]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert not found.judgement.account.lost


@pytest.mark.rest
def test_programs_that_speak_tls_and_log_in_are_judged_alike(tmp_path: Path) -> None:
    """They are told how by their environment; the right ones are kept, and the one that commits
    first is convicted.
    """
    system = DeclaredSystem(keep=True)
    try:
        points = ("request-lost", "commit-ack-lost")
        right = check(system, tmp_path, EXAMPLES / "secured" / "pipeline.toml", *points)
        wrong = check(system, tmp_path, EXAMPLES / "secured" / "mistake.toml", points[1])[points[1]]
    finally:
        system.close()
    assert {name: result.verdict.kind for name, result in right.items()} == dict.fromkeys(
        points, Kind.KEPT
    )
    assert wrong.verdict.kind is Kind.BROKEN, wrong.verdict.reason
    assert wrong.judgement.account.lost == {wrong.plan.target}


@pytest.mark.rest
def test_another_language_is_judged_alike(system: DeclaredSystem, tmp_path: Path) -> None:
    """Java's client is idempotent unless told otherwise: a repeated request is absorbed, a
    restarted producer is not.
    """
    points = ("ack-lost", "producer-crash-before-ack")
    found = check(system, tmp_path, EXAMPLES / "java" / "pipeline.toml", *points)
    assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
        points, Kind.KEPT
    ), [result.verdict.reason for result in found.values()]
    assert not found["ack-lost"].judgement.account.duplicated
    assert "sent twice and stored once: absorbed by the broker" in found["ack-lost"].verdict.reason
    crashed = found["producer-crash-before-ack"]
    assert crashed.judgement.account.duplicated == {crashed.plan.target}


@pytest.mark.parametrize(
    "case",
    [
        ("commit-before-work", "commit-ack-lost", Select.TARGET, None),
        pytest.param(
            ("one-ack-no-retries", "request-lost", Select.TARGET, None), marks=pytest.mark.rest
        ),
        pytest.param(
            ("no-cursor", "producer-crash-before-ack", None, Select.THROUGH_TARGET),
            marks=pytest.mark.rest,
        ),
    ],
)
def test_a_mistake_is_convicted(
    system: DeclaredSystem, tmp_path: Path, case: tuple[str, str, Select | None, Select | None]
) -> None:
    """Of exactly these records, with the path of one of them and how to fix it."""
    name, point, lost, duplicated = case
    found = check(system, tmp_path, EXAMPLES / "mistakes" / name / "pipeline.toml", point)[point]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.judgement.account.lost == (found.plan.select[lost] if lost else frozenset())
    assert found.judgement.account.duplicated == (
        found.plan.select[duplicated] if duplicated else frozenset()
    )
    said = "\n".join(advice(found))
    assert "the path of" in said
    assert (
        "this works with lostack's own programs, run: lostack run --only "
        f"plain/{point}/{found.plan.semantic}"
    ) in said


@pytest.mark.rest
@pytest.mark.flink
def test_a_job_of_flink_is_judged_alike(system: DeclaredSystem, tmp_path: Path) -> None:
    """It goes on from its newest checkpoint: what that has pre-committed is committed, and what
    came behind is done again.
    """
    points = ("transaction-crash-before-commit", "producer-crash-before-ack")
    found = check(system, tmp_path, EXAMPLES / "flink" / "pipeline.toml", *points)
    assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
        points, Kind.KEPT
    ), [result.verdict.reason for result in found.values()]
    assert all(result.verdict.fired == 1 for result in found.values())


ENGINES = {"flink-default": "flink", "flink-one-prefix": "flink", "unanchored": "storm"}
"""The mistakes that are made with an engine, which is fetched where it is asked for."""
MISTAKES: list[tuple[str, str, set[str], set[str]]] = [
    ("plain-sink", "commit-lost", set(), {"target"}),
    ("read-uncommitted", "transaction-crash-before-commit", set(), {"target"}),
    ("auto-commit-with-threads", "commit-ack-lost", {"target", "others"}, set()),
    (
        "ignored-callback",
        "request-lost",
        {"target", "others"},
        set(),
    ),  # others: those in the same request
    ("streams-default", "producer-crash-before-ack", set(), {"target", "others"}),
    ("flink-default", "producer-crash-before-send", {"target", "others"}, set()),
    ("flink-one-prefix", "transaction-crash-before-commit", {"target", "others"}, set()),
    ("unanchored", "producer-crash-before-send", {"target", "others"}, set()),
    ("late-group-metadata", "zombie-processor", set(), {"target", "others"}),
    ("answers-early", "producer-crash-before-send", {"target", "others"}, set()),
    ("no-flush", "input-ends-while-sending", {"target", "others"}, set()),
]


@pytest.mark.rest
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case[0],
            marks=[getattr(pytest.mark, ENGINES[case[0]])] if case[0] in ENGINES else (),
        )
        for case in MISTAKES
    ],
)
def test_a_mistake_is_convicted_and_its_twin_is_not(
    system: DeclaredSystem, tmp_path: Path, case: tuple[str, str, set[str], set[str]]
) -> None:
    """The wrong program breaks what it claims at this record, and perhaps at others; the right one
    keeps it there.
    """
    name, point, lost, duplicated = case
    folder = EXAMPLES / "mistakes" / name
    found = check(system, tmp_path, folder / "pipeline.toml", point)[point]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    account, target = found.judgement.account, found.plan.target
    for what, expected in ((account.lost, lost), (account.duplicated, duplicated)):
        assert (target in what) is ("target" in expected)
        assert what <= {target} or "others" in expected
    twin = check(system, tmp_path, folder / "right.toml", point)[point]
    assert twin.verdict.kind is Kind.KEPT, twin.verdict.reason


@pytest.mark.rest
@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("auto-commit", "commit-lost"),
        ("commit-before-work", "commit-ack-lost"),
        ("one-ack-no-retries", "request-lost"),
        ("no-cursor", "producer-crash-before-ack"),
    ],
)
def test_the_right_twin_of_a_mistake_is_kept(
    system: DeclaredSystem, tmp_path: Path, name: str, point: str
) -> None:
    twin = check(system, tmp_path, EXAMPLES / "mistakes" / name / "right.toml", point)[point]
    assert twin.verdict.kind is Kind.KEPT, twin.verdict.reason
    assert twin.verdict.fired == 1


@pytest.mark.rest
@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("exactly-once", "transaction-crash-before-commit-ack"),  # confluent-kafka
        ("ingest", "producer-crash-before-ack"),  # by HTTP
        ("readings", "commit-lost"),  # records of its own, to Parquet
        ("enrich", "transaction-crash-before-commit"),  # from topic to topic
        pytest.param(
            "spark", "producer-crash-before-ack", marks=pytest.mark.spark
        ),  # a Python front and its JVM, one stage
    ],
)
def test_every_way_in_and_out(
    system: DeclaredSystem, tmp_path: Path, name: str, point: str
) -> None:
    """HTTP, the producer's own records and a topic on one side, Parquet and a topic on
    the other.
    """
    found = check(system, tmp_path, EXAMPLES / name / "pipeline.toml", point)[point]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.verdict.fired == 1
    assert not found.judgement.account.lost


@pytest.mark.rest
@pytest.mark.parametrize("shell", [False, True])
def test_a_failpoint_in_the_users_program(
    system: DeclaredSystem, tmp_path: Path, shell: bool
) -> None:
    """Between recording and commit, where no wire sees anything: recorded twice. Below a shell it
    is the same stage.
    """
    for program in ("producer.py", "consumer.py"):
        text = (EXAMPLES / "orders" / program).read_text(encoding="utf-8")
        text = text.replace(
            "    consumer.commit()",
            '    failpoint("recorded", order["order"])\n    consumer.commit()',
        )
        text = text.replace("import json\n", "import json\nfrom lostack import failpoint\n", 1)
        (tmp_path / program).write_text(text, encoding="utf-8")
    file = tmp_path / "pipeline.toml"
    words = "{python} consumer.py {work}/orders.db"
    command = f'["sh", "-c", "{words}; exit 1"]' if shell else f'"{words}"'
    told = ORDERS.replace(f'command = "{words}"', f'command = {command}\nfailpoints = ["recorded"]')
    assert told != ORDERS
    file.write_text(
        'name = "orders"\n' + told.replace("at-least-once", "exactly-once"), encoding="utf-8"
    )
    found = check(system, tmp_path / "reports", file, "consumer-at-recorded")[
        "consumer-at-recorded"
    ]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.judgement.account.duplicated == {found.plan.target}
    assert not found.judgement.account.lost


@pytest.mark.rest
def test_who_skips_a_record_in_silence_is_convicted_of_that(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Without any fault: one lost, delivered and not recorded; and what is advised concerns the
    consumer, not the producer.
    """
    shutil.copytree(EXAMPLES / "orders", tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "consumer.py").read_text(encoding="utf-8")
    skips = (
        "    if (message.partition, message.offset) == (0, 0):\n        consumer.commit()\n      "
        "  continue\n"
    )
    (tmp_path / "consumer.py").write_text(
        text.replace("    with database:", f"{skips}    with database:"), encoding="utf-8"
    )
    found = check(system, tmp_path / "reports", tmp_path / "pipeline.toml")["none"]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert len(found.judgement.account.lost) == 1
    assert "delivered, not recorded" in found.verdict.reason
    said = "\n".join(advice(found))
    assert "commit the position only when the result is recorded" in said
    assert "acks=all" not in said
    assert "lostack run" not in said


@pytest.mark.rest
def test_auto_commit_is_no_at_most_once(system: DeclaredSystem, tmp_path: Path) -> None:
    """Everything recorded since the last commit is recorded again, the target among it."""
    found = check(
        system, tmp_path, EXAMPLES / "mistakes" / "auto-commit" / "pipeline.toml", "commit-lost"
    )["commit-lost"]
    assert found.verdict.kind is Kind.BROKEN, found.verdict.reason
    assert found.plan.target in found.judgement.account.duplicated
    assert not found.judgement.account.lost


ORDERS = (EXAMPLES / "orders" / "pipeline.toml").read_text(encoding="utf-8")


@pytest.mark.rest
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '"{python} consumer.py {work}/orders.db"',
            '"{python} -c \'raise SystemExit(\\"no licence\\")\'"',
            (
                "the consumer ended with status 1 before it was ready (it sent no request to "
                "127.0.0.1:"
            ),
        ),
        (
            '"{python} consumer.py {work}/orders.db"',
            "\"{python} -c 'import time; time.sleep(60)'\"\nready_within_s = 2",
            (
                "the consumer was not ready within 2 s: it never fetched from a topic of the run "
                "(it sent no request"
            ),
        ),
        (
            '"SELECT number FROM orders ORDER BY rowid"',
            '"SELECT customer FROM orders"',
            "no row of the output carries the id of a record",
        ),
        (
            '"SELECT number FROM orders ORDER BY rowid"',
            '"SELECT number FROM ordrs"',
            "no such table: ordrs",
        ),
    ],
)
def test_what_proves_nothing_is_void_and_says_why(
    system: DeclaredSystem, tmp_path: Path, old: str, new: str, said: str
) -> None:
    """A stage that dies at once, one that is never ready, an output without ids or that cannot be
    read.
    """
    assert old in ORDERS
    for program in ("producer.py", "consumer.py"):
        (tmp_path / program).write_text(
            (EXAMPLES / "orders" / program).read_text(encoding="utf-8"), encoding="utf-8"
        )
    file = tmp_path / "pipeline.toml"
    file.write_text(ORDERS.replace(old, new), encoding="utf-8")
    found = check(system, tmp_path / "reports", file)["none"]
    assert found.verdict.kind is Kind.VOID
    assert said in found.verdict.reason


SQLITE = ORDERS[ORDERS.index('kind = "sqlite"') :]
LARGE = (
    (EXAMPLES / "orders" / "producer.py")
    .read_text(encoding="utf-8")
    .partition("acks=")[2]
    .partition(", key")[0]
)
BAD_RUNS = {
    "it is refused": (
        "ingest",
        "producer.py",
        "response(201)",
        "response(400)",
        Kind.STUCK,
        "answered 400 to a POST",
    ),
    "it makes fewer than it should": (
        "readings",
        "producer.py",
        "range(first, 49)",
        "range(first, 41)",
        Kind.BROKEN,
        "8 lost",
    ),
    "ids repeat": (
        "readings",
        "producer.py",
        "r-{number}",
        "r-{number % 40}",
        Kind.VOID,
        "2 times in a run without",
    ),
    "no ids": (
        "orders",
        "pipeline.toml",
        SQLITE,
        'kind = "stdout"',
        Kind.VOID,
        "no record is in the output (stdout)",
    ),
    "wrong topic": (
        "orders",
        "consumer.py",
        '"orders",\n',
        '"ordres",\n',
        Kind.VOID,
        "it never fetched from a topic of the run",
    ),
    "sink unreachable": (
        "orders",
        "pipeline.toml",
        SQLITE,
        'kind = "command"\ncommand = ["sh", "-c", "echo no way >&2; exit 2"]',
        Kind.VOID,
        "the output's command 'sh' ended with status 2: no way",
    ),
    "each twice": (
        "orders",
        "pipeline.toml",
        "FROM orders ORDER BY rowid",
        "FROM orders UNION ALL SELECT number FROM orders",
        Kind.VOID,
        "unclean, for without a fault the prediction is contradicted: duplicated: predicted 0, saw",
    ),
    "two ids in a row": (
        "orders",
        "pipeline.toml",
        "SELECT number FROM",
        "SELECT group_concat(number) FROM",
        Kind.VOID,
        "a row of the output holds the ids of 48 records ('k",
    ),
    "a phantom and a footer": (
        "orders",
        "pipeline.toml",
        " ORDER BY rowid",
        " UNION ALL SELECT replace(max(number), '.k', '.k77') FROM orders UNION ALL SELECT 'TOTAL'",
        Kind.BROKEN,
        "1 phantom, as '",
    ),
    "too large": (
        "orders",
        "producer.py",
        LARGE,
        LARGE.replace('"all")', '"all", max_request_size=10**7)').replace(
            "encode()", 'encode() + b" " * 1_200_000'
        ),
        Kind.STUCK,
        "is too large for orders: the broker refuses it",
    ),
    "no group": (
        "orders",
        "consumer.py",
        'group_id="billing",',
        "group_id=None,",
        Kind.STUCK,
        "the pipeline cannot go on: position: no consumer group has saved a position in orders",
    ),
    "never settles": (
        "orders",
        "pipeline.toml",
        SQLITE,
        'kind = "command"\ncommand = "date +%N"',
        Kind.VOID,
        (
            "quiet_s asks for 1 s without a change, and there were none in 12 s (drain_s), without "
            "any fault"
        ),
    ),
}


@pytest.mark.rest
@pytest.mark.parametrize("case", BAD_RUNS.values(), ids=BAD_RUNS)
def test_a_run_that_is_no_good_says_so(
    system: DeclaredSystem, tmp_path: Path, case: tuple[str, str, str, str, Kind, str]
) -> None:
    """And is never kept: what the reason is depends on where it shows."""
    name, program, old, new, kind, said = case
    shutil.copytree(EXAMPLES / name, tmp_path / name)
    shutil.copytree(EXAMPLES / "orders", tmp_path / "orders", dirs_exist_ok=True)
    text = (tmp_path / name / program).read_text(encoding="utf-8")
    assert old in text
    text = text.replace(old, new)
    if "group_id=None" in text:
        text = text.replace("    consumer.commit()", "")
    (tmp_path / name / program).write_text(text, encoding="utf-8")
    file = tmp_path / name / "pipeline.toml"
    told = file.read_text(encoding="utf-8").replace(
        'role = "consumer"', 'role = "consumer"\nready_within_s = 6'
    )
    short = "drain_s = 12\n" if name == "ingest" or "quiet_s" in said else ""
    file.write_text(short + told, encoding="utf-8")
    found = check(system, tmp_path / "reports", file)["none"]
    assert found.verdict.kind is kind, found.verdict.reason
    assert said in found.verdict.reason


@pytest.mark.rest
def test_an_output_may_be_unreadable_until_its_first_record(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """A program may make a file, or a table, for the first record. While a fault is awaited that is
    no reason to give up.
    """
    folder = shutil.copytree(EXAMPLES / "orders", tmp_path / "orders")
    (folder / "rows.py").write_text(
        "import sqlite3, sys\n"
        "rows = sqlite3.connect(sys.argv[1]).execute('SELECT number FROM orders').fetchall()\n"
        "print(*(row[0] for row in rows), sep='\\n')\n"
        "sys.exit(not rows)\n"
    )
    file = folder / "pipeline.toml"
    text = file.read_text(encoding="utf-8")
    command = '[output]\nkind = "command"\ncommand = "{python} rows.py {work}/orders.db"\n'
    file.write_text(text.partition("[output]")[0] + command, encoding="utf-8")
    found = check(system, tmp_path / "reports", file, "request-lost")["request-lost"]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.verdict.fired == 1


@pytest.mark.rest
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            'security_protocol="SSL"',
            "does not speak Kafka as the run's listeners do: set its security.protocol=PLAINTEXT",
        ),
        (
            (
                'security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", '
                'sasl_plain_username="a", sasl_plain_password="b"'
            ),
            (
                "it logs in by SASL, but the run's listeners have no SASL: set its "
                "security.protocol=PLAINTEXT"
            ),
        ),
    ],
)
def test_security_that_a_run_does_not_have_is_named(
    system: DeclaredSystem, tmp_path: Path, setting: str, said: str
) -> None:
    for program in ("producer.py", "consumer.py"):
        text = (EXAMPLES / "orders" / program).read_text(encoding="utf-8")
        (tmp_path / program).write_text(
            text.replace('group_id="billing",', f'group_id="billing", {setting},'), encoding="utf-8"
        )
    file = tmp_path / "pipeline.toml"
    file.write_text(
        ORDERS.replace('role = "consumer"', 'role = "consumer"\nready_within_s = 15'),
        encoding="utf-8",
    )
    found = check(system, tmp_path / "reports", file)["none"]
    assert found.verdict.kind is Kind.VOID
    assert said in found.verdict.reason


@pytest.mark.rest
def test_a_client_that_ends_when_it_is_put_out_has_been_told(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Two consumers with librdkafka's defaults: the woken one is told by its commit's answer,
    raises, and is started again.
    """
    found = check(
        system, tmp_path, PROGRAMS / "two-consumers" / "pipeline.toml", "zombie-consumer"
    )["zombie-consumer"]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.verdict.fired == 1
    assert found.plan.target in found.judgement.account.duplicated


@pytest.mark.rest
def test_who_ends_in_order_keeps_its_promise(system: DeclaredSystem, tmp_path: Path) -> None:
    """A rolling deploy of each stage, and the end of the input behind everything at once: nothing
    is lost.
    """
    points = ("told-to-end-while-sending", "told-to-end-while-reading", "input-ends-while-sending")
    found = check(system, tmp_path, EXAMPLES / "orders" / "pipeline.toml", *points)
    assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
        points, Kind.KEPT
    )
    for point, stage in zip(points, ("producer", "consumer", "producer"), strict=True):
        lives = [
            e
            for e in read_history(found[point].directory / HISTORY).of(kinds.Node)
            if e.node == stage
        ]
        assert found[point].verdict.fired == 1
        assert any(e.phase == "told" for e in lives) is (point != "input-ends-while-sending")


@pytest.mark.rest
def test_a_consumer_dies_wherever_it_reads_and_is_not_answered_when_it_comes_back(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """It goes on where its position says; its client asks again where an answer is lost."""
    points = (
        "consumer-crash-before-delivery",
        "consumer-crash-at-next-fetch",
        "position-answer-lost",
        "join-answer-lost",
        "producer-id-answer-lost",
    )
    found = check(system, tmp_path, EXAMPLES / "orders" / "pipeline.toml", *points)
    assert {name: result.verdict.kind for name, result in found.items()} == dict.fromkeys(
        points, Kind.KEPT
    ), [result.verdict.reason for result in found.values()]
    assert all(result.verdict.fired == 1 for result in found.values())
    told = list(
        read_history(found["consumer-crash-at-next-fetch"].directory / HISTORY).of(kinds.Rule)
    )
    assert [(e.rule, e.api) for e in told if e.phase == "hit"] == [
        ("before-fault", "Fetch"),
        ("fault", "Fetch"),
    ]


@pytest.mark.rest
def test_a_producer_that_makes_its_own_records_sends_them_in_three_waves(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Its consumer takes all there is at once: what is to come behind the fault waits on the wire
    until it is healed.
    """
    point = "consumer-crash-at-next-fetch"
    found = check(system, tmp_path, EXAMPLES / "readings" / "pipeline.toml", point)[point]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert found.verdict.fired == 1
    told = read_history(found.directory / HISTORY)
    rules = {(e.rule, str(e.phase)): e for e in told.of(kinds.Rule)}
    assert rules["second-wave", "hit"].records == ("r-17",)
    assert rules["last-wave", "hit"].records == ("r-33",)
    healed = next(e.t for e in told.of(kinds.Fault) if e.phase == "healed")
    assert (
        rules["last-wave", "hit"].t
        < rules["fault", "hit"].t
        < healed
        < rules["last-wave", "released"].t
    )
    given = [e.t for e in told.of(kinds.Fetched)]
    assert given[0] < rules["second-wave", "released"].t < rules["fault", "hit"].t < given[-1]


@pytest.mark.rest
def test_who_takes_a_lost_answer_for_no_position_loses_records(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Killed and started again it keeps its promise; only the lost answer shows the mistake."""
    points = ("consumer-crash-before-delivery", "position-answer-lost")
    found = check(system, tmp_path, PROGRAMS / "position-or-latest" / "pipeline.toml", *points)
    assert [found[name].verdict.kind for name in points] == [Kind.KEPT, Kind.BROKEN], found[
        "position-answer-lost"
    ].verdict.reason
    assert found["position-answer-lost"].judgement.account.lost
    assert found["position-answer-lost"].verdict.by_fault


@pytest.mark.rest
def test_who_does_not_come_back_is_stuck(system: DeclaredSystem, tmp_path: Path) -> None:
    """A lock file survives SIGKILL: what follows from it is found, with what the program says, and
    nobody waits for the end.
    """
    found = check(system, tmp_path, PROGRAMS / "lock-file" / "pipeline.toml", "commit-lost")[
        "commit-lost"
    ]
    assert found.verdict.kind is Kind.STUCK, found.verdict.reason
    assert found.verdict.fired == 1
    assert (
        "the pipeline cannot go on: consumer: the consumer ended with status 1"
        in found.verdict.reason
    )
    assert "orders.db.lock is there: another consumer is at work" in found.verdict.reason


@pytest.mark.rest
def test_one_process_of_several_that_ends_without_a_fault_proves_nothing(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """Its stage lives, and its sibling will do its work when the session is over: found soon, by
    its name, with what it said.
    """
    folder = PROGRAMS / "two-consumers"
    text = (folder / "workers.py").read_text(encoding="utf-8")
    ends = (
        '        if (message.partition(), message.offset()) == (0, 3):\n            sys.exit("no '
        'licence for more")\n'
    )
    text = text.replace("        with database:", f"{ends}        with database:")
    text = text.replace(
        "if worker.pid != pid else start() for worker in workers",
        "for worker in workers if worker.pid != pid",
    )
    assert "start() for" not in text
    (tmp_path / "workers.py").write_text(text, encoding="utf-8")
    told = (
        (folder / "pipeline.toml")
        .read_text(encoding="utf-8")
        .replace("../../../../examples", str(EXAMPLES))
    )
    (tmp_path / "pipeline.toml").write_text('name = "one-ends"\n' + told, encoding="utf-8")
    found = check(system, tmp_path / "reports", tmp_path / "pipeline.toml")["none"]
    assert found.verdict.kind is Kind.STUCK, found.verdict.reason
    assert (
        "the pipeline cannot go on: consumer: the consumer has lost one of its processes: "
        in found.verdict.reason
    )
    assert "it last said: no licence for more" in found.verdict.reason
    assert any(e.phase == "gone" for e in read_history(found.directory / HISTORY).of(kinds.Node))


@pytest.mark.rest
def test_readers_behind_a_dangling_transaction_are_told_of(
    system: DeclaredSystem, tmp_path: Path
) -> None:
    """A producer whose transactional id is new with each life leaves its transaction to the
    time-out: kept, and late.
    """
    shutil.copytree(EXAMPLES / "exactly-once", tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "producer.py").read_text(encoding="utf-8")
    new = '"transactional.id": f"orders-{os.getpid()}", "transaction.timeout.ms": 8000'
    (tmp_path / "producer.py").write_text(
        text.replace('"transactional.id": "orders"', new), encoding="utf-8"
    )
    point = "transaction-crash-before-commit"
    found = check(system, tmp_path / "reports", tmp_path / "pipeline.toml", point)[point]
    assert found.verdict.kind is Kind.KEPT, found.verdict.reason
    assert "readers of committed records of orders/" in found.verdict.reason
    assert (found.judgement.movement.held_back_s or 0) > HELD_BACK_S
