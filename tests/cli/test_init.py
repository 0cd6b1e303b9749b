"""``lostack init``: what it writes is read again, and says what was asked; what it cannot know, it
asks for.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import jsonschema
import pytest
import typer
import yaml

from harness.cli import main
from harness.cli.drafts.asking import Asker
from harness.cli.drafts.compose import pointed, read_compose
from harness.cli.drafts.sources import look_at
from harness.model.failures import UsageError
from harness.model.scenario import Role
from harness.pipelines import read_pipeline
from harness.pipelines.inputs import DRAFTED, InputKind
from harness.pipelines.outputs import OutputKind
from harness.pipelines.reading import ALIASES, PIPELINE, schema
from harness.pipelines.refusing import DeclarationError

if TYPE_CHECKING:
    from harness.pipelines.fields import Schema

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DECLARATIONS = sorted(EXAMPLES.rglob("*.toml"))
COMPOSE = """
services:
  kafka: {image: "apache/kafka:4.0.0", ports: ["9092:9092"]}
  db: {image: "postgres:16", environment: {POSTGRES_PASSWORD: secret}}
  kafka-ui: {image: provectuslabs/kafka-ui}
  orders-in:
    image: acme/orders-in:2
    command: "orders-in --fast"
    environment: ["KAFKA=kafka:9092", "MODE=prod"]
  billing:
    build: .
    environment: {BROKERS: "kafka:29092", DB: "postgresql://u@db:5432/x"}
"""


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A folder with two programs, and a name that no cell could have."""
    folder = tmp_path / "my orders"
    folder.mkdir()
    for name in ("producer.py", "consumer.py"):
        shutil.copy(EXAMPLES / "orders" / name, folder)
    return folder


WORDS = (
    "--producer",
    "{python} producer.py",
    "--consumer",
    "{python} consumer.py {work}/orders.db",
    "--file",
    "{work}/orders.db",
)


def test_a_declaration_is_written_of_what_the_programs_show(
    orders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Topic, input, line, table and column: the example's own declaration says the same. Nobody has
    to be asked.
    """
    assert main(["init", str(orders), *WORDS]) == 0
    found = read_pipeline(orders / "pipeline.toml")
    wanted = read_pipeline(EXAMPLES / "orders" / "pipeline.toml")
    assert (found.claims, found.topics, found.stages, found.output, found.input) == (
        wanted.claims,
        wanted.topics,
        wanted.stages,
        wanted.output,
        wanted.input,
    )
    assert found.name == "my-orders"
    told = capsys.readouterr().out
    assert "next: lostack check --explain" in told
    assert "in lostack.yml: replace OWNER" in told
    assert json.loads((orders / "pipeline.schema.json").read_text(encoding="utf-8")) == schema()


def test_the_workflow_has_the_action_that_there_is(orders: Path) -> None:
    """By the words of docs/ci.md, with inputs that the action has; no package index has lostack."""
    assert main(["init", str(orders), *WORDS]) == 0
    text = (orders / ".github/workflows/lostack.yml").read_text(encoding="utf-8")
    [step] = [
        step for step in yaml.safe_load(text)["jobs"]["check"]["steps"] if "lostack" in step["uses"]
    ]
    assert f"uses: {step['uses']} " in (ROOT / "docs/ci.md").read_text(encoding="utf-8")
    assert step["with"] == {"pipeline": "pipeline.toml"}
    assert (
        step["with"].keys()
        <= yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"].keys()
    )
    assert "pip install lostack" not in text


def test_nothing_is_written_over(orders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless that is asked for; a workflow that is there stays."""
    assert main(["init", str(orders), *WORDS, "--no-ci"]) == 0
    assert not (orders / ".github").exists()
    assert main(["init", str(orders), *WORDS]) == 2
    assert "--force overwrites it" in capsys.readouterr().err
    assert main(["init", str(orders), *WORDS, "--force", "--claims", "exactly-once"]) == 0
    assert read_pipeline(orders / "pipeline.toml").claims == "exactly-once"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--consumer", "{python} consumer.py"), "--file is missing: Which file"),
        ((), "--producer or --consumer is missing"),
        ((*WORDS, "--claims", "once"), "'once' is not known"),
        ((*WORDS, "--output", "sql"), "'sql' is not known; did you mean sqlite?"),
        ((*WORDS[2:], "--producer", "'"), "No closing quotation"),
        ((*WORDS[2:], "--producer", "nosuchthing x"), "--input is missing"),
        (
            (*WORDS[2:], "--producer", "nosuchthing x", "--input", "stdin"),
            "command 'nosuchthing' cannot be started",
        ),
        ((*WORDS, "--compose", "nowhere.yml"), "cannot read nowhere.yml"),
        ((*WORDS, "--line", "{nothing}"), r"{nothing} has no value"),
    ],
)
def test_what_it_cannot_know_is_one_line(
    orders: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert main(["init", str(orders), *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not (orders / "pipeline.toml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--line", "a\n{id}"), "--line has the character '\\n', which pipeline.toml cannot have"),
        (("--line", "\udcff{id}"), "--line has the character '\\udcff'"),
        (("--header", "a\x01b"), "--header has the character '\\x01'"),
        (("--topic", ""), "--topic is empty: write something, or leave it out"),
        (("--producer", ""), "--producer is empty"),
        (
            ("--consumer", "cat"),
            "--consumer is given more than once: give the one whose results are judged",
        ),
    ],
)
def test_an_option_that_no_declaration_can_have(
    orders: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, str], said: str
) -> None:
    assert main(["init", str(orders), *WORDS, *words]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1
    assert sorted(file.name for file in orders.iterdir()) == ["consumer.py", "producer.py"]


def test_whatever_was_there_is_put_back(orders: Path) -> None:
    """Of a file in any encoding, where what was written in its place does not hold; else it is
    written over.
    """
    file = orders / "pipeline.toml"
    file.write_bytes(b"\xff\xfe")
    assert main(["init", str(orders), *WORDS, "--force", "--line", "nothing"]) == 2
    assert file.read_bytes() == b"\xff\xfe"
    assert main(["init", str(orders), *WORDS, "--force"]) == 0
    assert read_pipeline(file).topics == ("orders",)


@pytest.mark.parametrize("before", [None, "claims = 1"])
def test_nothing_is_half_written(
    orders: Path, capsys: pytest.CaptureFixture[str], before: str | None
) -> None:
    """Where the last of the files cannot be: the others are as they were."""
    (orders / ".github").write_text("a file")
    file = orders / "pipeline.toml"
    if before:
        file.write_text(before)
    assert main(["init", str(orders), *WORDS, "--force"]) == 3
    assert ".github" in capsys.readouterr().err
    assert (file.read_text() if file.exists() else None) == before
    assert not (orders / "pipeline.schema.json").exists()
    assert main(["init", str(orders), *WORDS, "--force", "--no-ci"]) == 0


def test_a_workflow_that_is_there_stays(orders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workflow = orders / ".github/workflows/lostack.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text("mine")
    assert main(["init", str(orders), *WORDS, "--force"]) == 0
    assert f"{workflow} exists already and was left as it is" in capsys.readouterr().err
    assert workflow.read_text() == "mine"


def test_a_folder_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "no/such/folder", *WORDS]) == 2
    assert "no/such/folder is not a folder" in capsys.readouterr().err


def test_questions_have_what_was_seen_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def prompt(text: str, default: str | None = None, **_: object) -> str:
        asked.append((text, default))
        return default or "typed"

    monkeypatch.setattr("typer.prompt", prompt)
    asker = Asker(asks=True)
    assert asker.answer(None, "--topic", "Which?", "orders") == "orders"
    assert asker.answer("given", "--topic", "Which?", "orders") == "given"
    assert asker.answer(None, "--topic", "Which?") == "typed"
    assert asker.perhaps("--any", "Any?") == "typed"
    assert asked == [("Which?", "orders"), ("Which?", None), ("Any?", "")]
    with pytest.raises(UsageError, match="--topic is missing"):
        Asker(asks=False).answer(None, "--topic", "Which?")


INPUTS = {
    InputKind.STDIN: [],
    InputKind.FILE: ["--producer", "./producer {input}"],
    InputKind.HTTP: ["--url", "http://127.0.0.1:{port}/orders"],
    InputKind.TOPIC: None,
    InputKind.OWN: ["--line", "order-{position}", "--pattern", r"order-\d+"],
}
OUTPUTS = {
    OutputKind.SQLITE: ["--file", "{work}/x.db", "--query", "SELECT id FROM x"],
    OutputKind.LINES: ["--file", "{work}/x.txt"],
    OutputKind.PARQUET: ["--file", "{work}/*.parquet"],
    OutputKind.DELTA: ["--file", "{work}/orders"],
    OutputKind.ICEBERG: ["--file", "{work}/orders"],
    OutputKind.STDOUT: [],
    OutputKind.COMMAND: ["--command", "cat {work}/x"],
    OutputKind.TOPIC: [],
}


def programs(folder: Path) -> Path:
    """Make a folder with programs that show nothing."""
    for name in ("producer", "consumer"):
        file = folder / name
        file.write_text("#!/bin/sh\n", encoding="utf-8")
        file.chmod(0o755)
    return folder


@pytest.mark.parametrize("kind", DRAFTED)
def test_every_kind_of_input_can_be_written(tmp_path: Path, kind: InputKind) -> None:
    """By options alone; a producer that names no port for its url is given one."""
    more = INPUTS[kind]
    producer = [] if more is None else ["--producer", "./producer"]
    words = ["--consumer", "./consumer", "--topic", "orders", "--output", "stdout", *(more or [])]
    assert main(["init", str(programs(tmp_path)), "--input", kind, *producer, *words]) == 0
    pipeline = read_pipeline(tmp_path / "pipeline.toml")
    assert pipeline.input.kind is kind
    if kind is InputKind.HTTP:
        assert pipeline.stages[0].environment["PORT"] == "{port}"


@pytest.mark.parametrize("kind", OutputKind)
def test_every_kind_of_output_can_be_written(tmp_path: Path, kind: OutputKind) -> None:
    words = ["--producer", "./producer", "--consumer", "./consumer", "--topic", "orders"]
    more = ["--input", "stdin", "--output", kind, *OUTPUTS[kind]]
    assert main(["init", str(programs(tmp_path)), *words, *more]) == 0
    assert read_pipeline(tmp_path / "pipeline.toml").output.kind is kind


@pytest.mark.parametrize("ends", [typer.Abort(), KeyboardInterrupt()])
def test_an_abandoned_dialogue_can_be_gone_on_with(
    tmp_path: Path,
    ends: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The answers so far stand in a command line, which then asks for the rest only."""
    folder = programs(tmp_path)
    answers = iter(['./producer --of "it\'s"', "", "./consumer", "at-most-once", "orders, bills"])

    def prompt(*_: object, **__: object) -> str:
        try:
            return next(answers)
        except StopIteration:
            raise ends from None

    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert main(["init", str(folder), "--header", "order,customer", "--no-ci"]) == 130
    told = capsys.readouterr().err
    assert not (folder / "pipeline.toml").exists()
    [line] = [line for line in told.splitlines() if "to go on with your answers: " in line]
    words = shlex.split(line.partition("answers: ")[2])
    assert words[:3] == ["lostack", "init", str(folder)]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    assert main([*words[1:], "--input", "stdin", "--output", "stdout"]) == 0
    pipeline = read_pipeline(folder / "pipeline.toml")
    assert pipeline.claims == "at-most-once"
    assert pipeline.topics == ("orders", "bills")
    assert pipeline.stages[0].command == ("./producer", "--of", "it's")
    assert pipeline.input.header == "order,customer"


def test_the_line_that_goes_on_has_variables_for_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shell runs it as it is printed, and gets back each word of the answers."""
    producer = """./producer --password hunter2 --of "it's" '$HOME' a\\\\b"""
    consumer = "./consumer amqp://me:s3cret@db/shop"
    answers = iter([producer, "", consumer])

    def prompt(*_: object, **__: object) -> str:
        try:
            return next(answers)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert main(["init", str(programs(tmp_path)), "--no-ci"]) == 130
    [line] = [each for each in capsys.readouterr().err.splitlines() if "nothing was" in each]
    said, _, command = line.partition(", then run: ")
    assert "SECRET_1 (read -rs SECRET_1), SECRET_2 (read -rs SECRET_2)" in said
    assert "hunter2" not in line
    assert "s3cret" not in line
    shell = f"lostack() {{ printf '%s\\0' \"$@\"; }}; {command}"
    given = {"SECRET_1": "hunter2", "SECRET_2": "s3cret"}
    words = subprocess.run(["bash", "-c", shell], env=given, capture_output=True, check=True)
    assert words.stdout.decode().split("\0")[2:6] == [
        "--producer",
        producer,
        "--consumer",
        consumer,
    ]


def test_a_wrong_answer_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an option's value would be refused, a user can answer once more."""
    answers = iter(["exactly", "exactly-once"])
    asked = []

    def prompt(text: str, **_: object) -> str:
        asked.append(text)
        return next(answers)

    monkeypatch.setattr("typer.prompt", prompt)
    given = Asker(asks=True).answer(None, "--claims", "What?", "", ["exactly-once", "at-most-once"])
    assert given == "exactly-once"
    assert asked == ["What?", "'exactly' is not known; did you mean exactly-once?"]


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        ("apache/kafka:4.3.0", "broker"),
        ("apache/kafka-native", "broker"),
        ("confluentinc/cp-kafka:7.6.0", "broker"),
        ("bitnami/kafka@sha256:0123", "broker"),
        ("registry.local:5000/team/kafka", "broker"),
        ("redpandadata/redpanda", "broker"),
        ("apache/activemq-artemis", "broker"),
        ("apache/activemq-classic:6", "broker"),
        ("apachepulsar/pulsar-all", "broker"),
        ("provectuslabs/kafka-ui", "beside"),
        ("danielqsj/kafka-exporter", "beside"),
        ("seglo/kafka-lag-exporter", "beside"),
        ("redpandadata/console", "beside"),
        ("cmak/kafka-manager", "beside"),
        ("obsidiandynamics/kafdrop", "beside"),
        ("prometheuscommunity/postgres-exporter", "beside"),
        ("rediscommander/redis-commander", "beside"),
        ("confluentinc/cp-kafka-connect", "program"),
        ("debezium/connect", "program"),
        ("confluentinc/cp-kafka-rest", "program"),
        ("acme/kafka-mirror-maker", "program"),
        ("acme/kafka-consumer", "program"),
        ("acme/redis-worker", "program"),
        ("postgres:16-alpine", "server"),
        ("confluentinc/cp-schema-registry", "server"),
    ],
)
def test_what_an_image_is(tmp_path: Path, image: str, kind: str) -> None:
    file = tmp_path / "compose.yml"
    file.write_text(f"services: {{one: {{image: '{image}'}}}}", encoding="utf-8")
    [found] = read_compose(file)
    assert found.kind == kind


def test_what_a_service_shows_of_itself(tmp_path: Path) -> None:
    """A broker of somebody's own has a broker's variables; a broker's image may do an errand; a
    project's name says nothing of what is built in it.
    """
    folder = tmp_path / "kafka-redis-shop"
    folder.mkdir()
    file = folder / "compose.yml"
    file.write_text(
        "services:\n"
        "  bus: {image: acme/bus, environment: {KAFKA_ADVERTISED_LISTENERS: 'PLAINTEXT://bus:9092'}}\n"
        "  init: {image: apache/kafka, command: bash -c 'kafka-topics --create --topic orders'}\n"
        "  billing: {build: ., environment: {KAFKA_CLUSTERS: bus}}\n",
        encoding="utf-8",
    )
    kinds = {each.name: each.kind for each in read_compose(file)}
    assert kinds == {"bus": "broker", "init": "beside", "billing": "program"}


@pytest.mark.parametrize(
    ("declared", "name"), [("my orders", "my-orders"), ("a/b (new)", "a-b-new"), ("ok_1", "ok_1")]
)
def test_a_name_gets_hyphens(tmp_path: Path, declared: str, name: str) -> None:
    text = (EXAMPLES / "orders" / "pipeline.toml").read_text(encoding="utf-8")
    file = tmp_path / "pipeline.toml"
    file.write_text(f"name = {json.dumps(declared)}\n{text}", encoding="utf-8")
    assert read_pipeline(file).name == name


def test_a_program_that_names_its_broker_is_told_of(
    orders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lostack could not stand between them."""
    program = orders / "consumer.py"
    program.write_text(
        program.read_text(encoding="utf-8").replace(
            'os.environ["BOOTSTRAP_SERVERS"]', '"localhost:9092"'
        ),
        "utf-8",
    )
    assert main(["init", str(orders), *WORDS]) == 0
    assert (
        "consumer.py names the broker localhost:9092: let it take the address from the environment"
        in capsys.readouterr().err
    )


def test_a_variable_of_its_own_is_given_the_brokers(orders: Path) -> None:
    program = orders / "consumer.py"
    text = program.read_text(encoding="utf-8")
    program.write_text(
        text.replace(
            'os.environ["BOOTSTRAP_SERVERS"]', 'os.environ.get("BOOTSTRAP_SERVERS", "kafka:9092")'
        ),
        "utf-8",
    )
    assert look_at(["consumer.py"], orders).variables == ("BOOTSTRAP_SERVERS",)
    program.write_text(text.replace("BOOTSTRAP_SERVERS", "ACME_KAFKA_BROKERS"), encoding="utf-8")
    assert main(["init", str(orders), *WORDS]) == 0
    stage = read_pipeline(orders / "pipeline.toml").stage(Role.CONSUMER)
    assert stage is not None
    assert stage.environment == {"ACME_KAFKA_BROKERS": "{bootstrap}"}


def test_the_projects_own_interpreter_is_found(orders: Path) -> None:
    python = orders / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n", encoding="utf-8")
    python.chmod(0o755)
    assert main(["init", str(orders), *WORDS]) == 0
    pipeline = read_pipeline(orders / "pipeline.toml")
    assert (pipeline.python, pipeline.interpreter) == (".venv/bin/python", str(python))
    assert str(pipeline.path).startswith(f"{python.parent}:")
    pipeline.check_commands()
    python.unlink()
    with pytest.raises(DeclarationError, match=r"python: .* does not exist, or is not executable"):
        pipeline.check_commands()


def test_services_of_a_compose_file_are_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their addresses are places; databases come along; the broker is lostack's own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "psql").symlink_to("/bin/true")  # this machine may have none
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    file = tmp_path / "docker-compose.yml"
    file.write_text(COMPOSE, encoding="utf-8")
    assert (
        main(
            [
                "init",
                str(tmp_path),
                "--compose",
                str(file),
                "--producer",
                "orders-in",
                "--consumer",
                "billing",
                "--topic",
                "orders",
                "--input",
                "file",
                "--output",
                "command",
                "--command",
                "psql -p {db.port} -c 'SELECT id FROM bills'",
            ]
        )
        == 2
    ), "an image is not told where its input is"
    file.write_text(COMPOSE.replace("MODE=prod", "INPUT={input}"), encoding="utf-8")
    (tmp_path / "Dockerfile").write_text("FROM scratch", encoding="utf-8")
    assert (
        main(
            [
                "init",
                str(tmp_path),
                "--compose",
                str(file),
                "--producer",
                "orders-in",
                "--consumer",
                "billing",
                "--topic",
                "orders",
                "--input",
                "file",
                "--output",
                "command",
                "--command",
                "psql -p {db.port} -c 'SELECT id FROM bills'",
            ]
        )
        == 0
    )
    pipeline = read_pipeline(tmp_path / "pipeline.toml")
    producer, consumer = pipeline.stages
    assert (consumer.build, consumer.image) == (".", "built from .")
    assert (producer.image, producer.command, producer.environment["KAFKA"]) == (
        "acme/orders-in:2",
        ("orders-in", "--fast"),
        "{bootstrap}",
    )
    assert consumer.environment == {
        "BROKERS": "{bootstrap}",
        "DB": "postgresql://u@127.0.0.1:{db.port}/x",
    }
    [service] = pipeline.services
    assert (service.name, service.image, service.command) == (
        "db",
        "postgres:16",
        ("postgres", "-p", "{db.port}"),
    )


@pytest.mark.parametrize(
    ("build", "folder"),
    [
        ("./billing", "billing"),
        ("{context: billing}", "billing"),
        ("{context: billing, target: slim}", None),
        ("{context: billing, dockerfile: Other}", None),
        ("https://example.org/billing.git", None),
        ('"${WHERE}"', None),
        ("[billing]", None),
    ],
)
def test_what_is_built_from_a_folder_alone(tmp_path: Path, build: str, folder: str | None) -> None:
    """What more is said of, compose must build."""
    file = tmp_path / "compose.yml"
    file.write_text(f"services: {{billing: {{build: {build}}}}}", encoding="utf-8")
    [found] = read_compose(file)
    assert found.build == (folder and tmp_path / folder)


@pytest.mark.parametrize("text", ["", "services: 3", "a: [", "services: {x: 3}"])
def test_a_compose_file_that_is_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "compose.yml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DeclarationError, match="is not a docker-compose file") as told:
        read_compose(file)
    assert "object" not in str(told.value)  # Python's own words mean nothing to a user


def test_several_brokers_are_one_address(tmp_path: Path) -> None:
    file = tmp_path / "compose.yml"
    file.write_text(
        "services: {kafka1: {image: apache/kafka}, kafka2: {image: apache/kafka}}", encoding="utf-8"
    )
    assert pointed({"B": "kafka1:9092,kafka2:9092"}, read_compose(file)) == {"B": "{bootstrap}"}


def test_sources_show_topics_and_tables(tmp_path: Path) -> None:
    (tmp_path / "A.java").write_text(
        'c.subscribe(List.of("bills")); new ProducerRecord<String, String>("paid", v)', "utf-8"
    )
    shown = look_at(["java", "A.java", "nosuchfile.py"], tmp_path)
    assert (shown.files, shown.topics, shown.sqlite) == (("A.java",), ("bills", "paid"), False)


def test_what_a_shell_script_starts_is_looked_at(orders: Path) -> None:
    script = orders / "two.sh"
    script.write_text(
        '#!/bin/sh\n"$1" consumer.py "$2" & "$1" consumer.py "$2" & wait\n', encoding="utf-8"
    )
    script.chmod(0o755)
    shown = look_at(["./two.sh", "{work}/orders.db"], orders)
    assert (shown.files, shown.topics, shown.table) == (
        ("two.sh", "consumer.py"),
        ("orders",),
        "orders",
    )


# --- the schema -----------------------------------------------------------------------------------


@pytest.mark.parametrize("file", DECLARATIONS, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_every_example_is_of_the_schema(file: Path) -> None:
    jsonschema.validate(tomllib.loads(file.read_text(encoding="utf-8")), schema())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("claims",), "once"),
        (("stage", 0, "role"), "reader"),
        (("stage", 0, "comand"), "x"),
        (("records",), "many"),
        (("output", "kind"), "excel"),
        (("output", "kind"), None),
        (("input", "rate"), -1),
        (("topics",), None),
        (("stage", 0, "restart"), "yes"),
        (("stage", 0, "environment"), {"A": 1}),
        (("aggregate",), {}),
        (("nothing",), 1),
        (("partitions",), 1.5),
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(
    tmp_path: Path, path: tuple[str | int, ...], value: object
) -> None:
    """And the other way round: both come of the same fields."""
    data = tomllib.loads((EXAMPLES / "orders" / "pipeline.toml").read_text(encoding="utf-8"))
    at = data
    for word in path[:-1]:
        at = at[word]  # type: ignore[index]
    if value is None:
        del at[path[-1]]  # type: ignore[arg-type]
    else:
        at[path[-1]] = value  # type: ignore[index]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema())
    with pytest.raises(DeclarationError):
        PIPELINE.values("", data)
    del tmp_path


def test_every_field_says_what_it_means() -> None:
    def untold(where: str, found: Schema) -> list[str]:
        silent = [
            f"{where}.{name}"
            for name, each in found.get("properties", {}).items()
            if not each.get("description")
        ]
        inner = [each.get("items", each) for each in found.get("properties", {}).values()]
        return silent + [name for each in inner for name in untold(where, each)]

    assert untold("", schema()) == []
    assert set(schema()["properties"]) == {*PIPELINE.fields, *ALIASES}


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema()
