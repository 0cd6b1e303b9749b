"""A declaration: its defaults, and that every mistake in it is one line that says what was probably
meant.
"""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from harness.cli import main
from harness.controls import OnWire
from harness.faults import Answer, Kill, TakenOver, ToldLate
from harness.matrix.explaining import untried
from harness.model.exits import ExitCode
from harness.model.plan import plan_of
from harness.model.prediction import Permitted, Zero
from harness.model.scenario import Deployment, NotApplicable, Predicted, Role, Scenario
from harness.model.semantics import Anomaly, Guarantee, forbids
from harness.pipelines import DeclarationError, failure_points, read_pipeline
from harness.pipelines.braces import fill
from harness.pipelines.cells import cells_of
from harness.pipelines.failure_points import left_over
from harness.pipelines.invariants import Invariant
from harness.pipelines.reading import schema
from harness.pipelines.refusals import Refusal
from harness.pipelines.silences import is_long
from harness.pipelines.traffic import Owner
from harness.pipelines.writes import Written
from harness.protocols.kafka.steps import Api
from harness.provision import images
from harness.runtimes.docker import engine
from harness.systems.declared.feed.feeders import acknowledged
from harness.systems.declared.programs.command import StageCommand
from harness.systems.declared.system import DeclaredSystem
from harness.wire.rules import Direction
from tests.judge.growing import so_far_of
from tests.pipelines.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
TABLE = 'kind = "table"\ndatabase = "postgresql://u@127.0.0.1:1/d"'
GOOD = """
name = "mine"
claims = "at-least-once"
topics = ["orders"]
[[stage]]
role = "producer"
command = "cat"
[[stage]]
role = "consumer"
command = ["cat", "{bootstrap}"]
[output]
kind = "lines"
file = "{work}/*.jsonl"
"""


def declared(folder: Path, text: str) -> Path:
    """Write a declaration."""
    file = folder / "pipeline.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "name", ["x" * 65, "x" * 200, "ä" * 33], ids=["one more", "200", "two bytes each"]
)
def test_a_name_that_is_too_long_for_a_folder_is_refused(tmp_path: Path, name: str) -> None:
    said = f"name: has {len(name.encode())} bytes, and 64 is the most"
    with pytest.raises(DeclarationError, match=said) as caught:
        read_pipeline(declared(tmp_path, GOOD.replace('"mine"', f'"{name}"')))
    assert "\n" not in str(caught.value)
    (tmp_path / name).mkdir()
    with pytest.raises(DeclarationError, match=said):
        read_pipeline(declared(tmp_path / name, GOOD.replace('name = "mine"\n', "", 1)))


def test_no_cell_has_a_folder_whose_name_is_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of stages and failpoints stand in it, too: refused before anything is started."""
    long = GOOD.replace('role = "consumer"', f'role = "consumer"\nfailpoints = ["{"p" * 200}"]')
    file = declared(tmp_path, long.replace('"mine"', f'"{"x" * 64}"'))
    assert main(["check", str(file), "--reports", str(tmp_path / "reports")]) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "bytes, and 255 is the most: shorten the names in it" in told
    assert told.count("\n") == 1
    assert not (tmp_path / "reports").exists()


def test_a_text_of_the_schema_names_all_that_is_accepted_or_nothing_of_it() -> None:
    """A list that was written by hand would leave out what has come since."""

    def told(table: Mapping[str, Any]) -> Iterator[tuple[str, set[str], str]]:
        for name, each in table.get("properties", {}).items():
            names = each.get("enum") or each.get("items", {}).get("enum") or ()
            yield name, set(names), each.get("description", "")
            for inner in (each, each.get("items", {}), *each.get("anyOf", ())):
                yield from told(inner)

    listed = {}
    for name, names, text in told(schema()):
        words = set(re.findall(r"[\w.-]+", text))
        if len(names & words) > 1:
            listed[name] = names - words
    assert "protocol" in listed
    assert {name: left for name, left in listed.items() if left} == {}


def test_ten_lines_are_enough(tmp_path: Path) -> None:
    """Everything else has a default, and the id is found in what is offered."""
    pipeline = read_pipeline(declared(tmp_path, GOOD))
    assert (pipeline.name, pipeline.topic, pipeline.directory) == ("mine", "orders", tmp_path)
    [cell] = cells_of(pipeline, failure_points(pipeline)[:1])
    load = cell.load()
    assert len(load.records) == pipeline.records
    assert [cell.identity.in_text(line) for line in cell.lines().values()] == [
        record.id for record in load.records
    ]
    assert cell.identity.in_text(cell.line(load.records[0]).partition(".z")[0]) is None, (
        "a token cut short is none"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("claims =", "claim ="), "there is no field claim; did you mean claims?"),
        (
            ("at-least-once", "at-last-once"),
            "claims: 'at-last-once' is not known; did you mean at-least-once?",
        ),
        (
            ('command = "cat"', 'comand = "cat"'),
            "stage 1: there is no field comand; did you mean command?",
        ),
        (
            ('role = "producer"', 'role = "producr"'),
            "stage 1: role: 'producr' is not known; did you mean producer?",
        ),
        (
            ('kind = "lines"', 'kind = "line"'),
            "output: kind: 'line' is not known; did you mean lines?",
        ),
        (('file = "{work}/*.jsonl"', ""), "output: kind lines needs file"),
        (('role = "consumer"', 'role = "producer"'), "two stages are a producer"),
        (
            ("[output]", '[input]\nline = "{{id}}"\n[output]'),
            "input: line must hold {id} or {position}",
        ),
        (
            ("[output]", '[id]\npattern = "("\n[output]'),
            "id: pattern: '(' is no regular expression",
        ),
        (
            ("[output]", 'environment = { "A=B" = "x" }\n[output]'),
            "environment: 'A=B' cannot be a variable's name",
        ),
        (
            ("[output]", 'environment = { "" = "x" }\n[output]'),
            "environment: '' cannot be a variable's name",
        ),
        (
            ("[output]", 'environment = { A = "a\\u0000b" }\n[output]'),
            "environment: A: 'a\\x00b' has a null character",
        ),
        (
            ('command = "cat"', 'command = ["cat", "\\u0000"]'),
            "command: '\\x00' has a null character",
        ),
        (
            ('command = "cat"', 'command = "cat a\\u0000b"'),
            "command: 'cat a\\x00b' has a null character",
        ),
        (('"orders"', '"a", "b", "a"'), "topics: a is named twice"),
        (
            ('"orders"', '"__consumer_offsets"'),
            "topics: __consumer_offsets is one of the broker's internal topics",
        ),
        (('role = "producer"', 'role = "processor"'), "needs a stage with role producer"),
        (('"mine"', '"!?"'), "letters, digits, - and _ only"),
        (("[output]", '[input]\nkind = "topic"\n[output]'), "kind topic replaces the producer"),
        (("[output]", '[input]\nkind = "http"\n[output]'), "kind http needs url"),
        (
            ("[output]", '[input]\nkind = "http"\nurl = "http://10.0.0.9:80/"\n[output]'),
            "is not on this machine",
        ),
        (
            (
                "[output]",
                '[input]\nkind = "http"\nurl = "http://127.0.0.1:80@a.example/"\n[output]',
            ),
            "is not on this machine",
        ),
        (
            ("[output]", '[input]\nkind = "http"\nurl = "http://localhost:prot/"\n[output]'),
            "is not on this machine",
        ),
        (
            ("[output]", '[input]\nurl = "http://127.0.0.1:80/"\n[output]'),
            "other kinds must not have it",
        ),
        *(
            (("[output]", f"[input]\n{told}\n[output]"), said)
            for told, said in (
                ("writers = 2", "writers has no meaning for kind stdin"),
                (
                    'kind = "http"\nurl = "http://127.0.0.1:80/"\nwriters = 17',
                    "writers: 17; write a number from 1 to 16",
                ),
                ('table = "t"', "database and table have no meaning for kind stdin"),
                ('kind = "table"', "kind table needs database, as postgresql://"),
                (f"{TABLE}\ntable = 'a b'", "needs table, a name or schema.name, not 'a b'"),
                (f"{TABLE}\ntable = 't'\nline = '{{id}}'", "line must be a JSON object"),
                (f"{TABLE}\ntable = 't'\nline = '[{{position}}]'", "line must be a JSON object"),
                (
                    TABLE.replace("u@", "u:secret@") + "\ntable = 't'",
                    "database has a password: put it into PGPASSWORD",
                ),
                (
                    TABLE.replace("127.0.0.1:1", "127.0.0.1:{db.port}") + "\ntable = 't'",
                    "{db.port}: there is no service db",
                ),
            )
        ),
        (
            ("[output]", '[input]\ntopics = ["orders"]\n[output]'),
            "topics has no meaning for kind stdin",
        ),
        (("[output]", '[input]\nkind = "own"\n[output]'), "kind own needs line"),
        (("[output]", '[input]\nkind = "own"\nline = "r-{position}"\n[output]'), "and [id]"),
        (("[output]", '[id]\npattern = "("\n[output]'), "no regular expression"),
        (("[output]", "records = 3\n[output]"), "stage 2: there is no field records"),
        (('command = "cat"', 'command = "cat \'x"'), "No closing quotation"),
        (("[output]", 'ready = "(("\n[output]'), "of the consumer is not a regular expression"),
        (
            ("[output]", 'refusals = ["Produce"]\n[output]'),
            "'Produce': write a request and an error, and optionally done",
        ),
        (
            ("[output]", 'refusals = ["Produce NO"]\n[output]'),
            "a Produce can be refused by: UNKNOWN_TOPIC_OR_PARTITION, ",
        ),
        (("[output]", 'refusals = ["Metadata NO"]\n[output]'), "can be refused: Produce, Fetch, "),
        (
            ("[output]", 'refusals = ["Heartbeat NOT_COORDINATOR done"]\n[output]'),
            "means that the Heartbeat was not carried out",
        ),
        (
            (
                "[output]",
                'refusals = ["Heartbeat NOT_COORDINATOR", "Heartbeat NOT_COORDINATOR"]\n[output]',
            ),
            "names a refusal",
        ),
        (("[output]", 'image = "--privileged"\n[output]'), "cannot be the name of an image"),
        (("[output]", "ready_within_s = nan\n[output]"), "must be finite and above 0"),
        (("claims", "partitions = 0\nclaims"), "write a number from 1 to 1000"),
        (
            ("claims", "partitions = 100000\nclaims"),
            "partitions: 100000; write a number from 1 to 1000",
        ),
        (
            (
                "[output]",
                '[[invariant]]\nequals = 0\nquery = "/* x */ UPDATE t SET n = 0"\n[output]',
            ),
            "query: begins with UPDATE; write a query",
        ),
        (("claims", "drain_s = 0\nclaims"), "drain_s: 0 must be finite and above 0"),
        (
            ("claims", 'expects = ["lost"]\nclaims'),
            "expects: lost is forbidden by the claim at-least-once",
        ),
        (
            ("claims", 'expects = ["duplicate"]\nclaims'),
            "expects: 'duplicate' is not known; did you mean duplicated?",
        ),
        (
            ("[output]", "[input]\nkind = 'own'\nline = 'r-{position}'\nrate = 5\n[output]"),
            "rate has no meaning for kind own",
        ),
        (('"orders"', '"or ders"'), "is no name of a topic"),
        (('"orders"', '"orders", ""'), "topics: '' is no name of a topic"),
        (
            ("[output]", 'crash = "proces"\n[output]'),
            "crash: 'proces' is not known; did you mean process?",
        ),
        (("claims", "brokers = 2\nclaims"), "brokers: 2; write 1 or 3"),
        (
            ("claims", "brokers = 3\nbroker = { replicas = 4 }\nclaims"),
            "replicas: 4; write a number from 1 to 3, which is how many brokers there are",
        ),
        (
            ("claims", "broker = { replicas = 2 }\nclaims"),
            "replicas: 2; write a number",
        ),
        (
            ("claims", "broker = { replicas = -1 }\nclaims"),
            "replicas: -1; write a number",
        ),
        (
            ("[output]", "scale = 5\n[output]"),
            "scale: 5 members of the consumer; write a number fro",
        ),
        (("[output]", "scale = 0\n[output]"), "write a number from 1 to 4"),
        (("[output]", 'scale = "2"\n[output]'), "scale: '2' is no whole number"),
        (
            ('command = "cat"', 'command = "cat"\nscale = 2'),
            "the producer cannot have 2 members: a producer has no group whose members share its",
        ),
        (
            ("[output]", 'scale = 2\nposition = "elsewhere"\n[output]'),
            "it keeps its position elsewhere, so it has no group",
        ),
        (
            ("[output]", 'scale = 2\nimage = "mine:1"\n[output]'),
            "it is a container, and lostack starts only one of it",
        ),
        (('command = "cat"', ""), "the producer has neither command nor image nor build"),
        (
            ('command = "cat"', 'image = "mine:1"\nbuild = "mine"'),
            "the producer has image and build: write one of the two",
        ),
        (
            ('command = "cat"', 'connector = "sink.json"\nbuild = "mine"'),
            "the producer has a command or image, too",
        ),
        (
            ("[output]", 'image = "mine:1"\ncrash = "process"\n[output]'),
            "a container, which dies as a whole",
        ),
        (("claims", "records = 3\nclaims"), "records: 3; write a number from 12"),
        (('command = "cat"', 'command = "cat {wrok}"'), "{wrok} has no value; did you mean work?"),
        (("[output]", 'environment = { X = "{tpoic}" }\n[output]'), "did you mean topic?"),
        (
            ('file = "{work}', 'file = "{wokr}'),
            "output: file: {wokr} has no value; did you mean work?",
        ),
        (("[output]", "[input]\nline = '{id} of {postion}'\n[output]"), "did you mean position?"),
        (
            ('command = "cat"', 'command = "cat {input}"'),
            "{input} is the file of an input of kind file, but the input",
        ),
        (
            ("[output]", '[input]\nkind = "file"\n[output]'),
            "kind file, but no command or environment has {input}",
        ),
        (
            ("[output]", '[input]\nkind = "http"\nurl = "http://127.0.0.1:{port}/"\n[output]'),
            "pass it to the producer",
        ),
        (
            ('command = "cat"', "command = 7"),
            'is no command: write text ("python run.py --fast") or a list of words',
        ),
        (('command = "cat"', 'command = ["cat", 7]'), "command: 7 is no text"),
        (
            ("[output]", '[input]\nline = "order-{position}"\n[output]'),
            "input: line has {position} but not {id}: put {id} into it, or say in [id] where",
        ),
        (("claims", 'topic = "orders"\nclaims'), "topic and topics: write one of the two"),
        (('topics = ["orders"]', "topic = 7"), "topic: 7 is no text"),
        (('topics = ["orders"]', 'topic = ["orders", 7]'), "topic: 7 is no text"),
        (("[output]", "[output"), "is not TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    file = declared(tmp_path, GOOD.replace(*change, 1))
    with pytest.raises(DeclarationError) as told:
        read_pipeline(file)
    assert said in str(told.value)
    assert str(file) in str(told.value)
    assert "\n" not in str(told.value).rstrip()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (('file = "{work}/*.jsonl"', 'file = "~/out.jsonl"'), "output: file: ~/out.jsonl"),
        (("claims", 'python = "~/venv/bin/python"\nclaims'), "python: ~/venv/bin/python"),
        (('command = "cat"', 'command = "~/run.sh"'), "the producer's command: ~/run.sh"),
        (
            ('"lines"\nfile = "{work}/*.jsonl"', '"command"\ncommand = "~/show 1"'),
            "the output's command: ~/show",
        ),
    ],
)
def test_a_home_folder_is_written_as_a_whole(
    tmp_path: Path, change: tuple[str, str], where: str
) -> None:
    file = declared(tmp_path, GOOD.replace(*change, 1))
    with pytest.raises(DeclarationError, match=rf"{where}: only a shell knows ~: write the whole"):
        read_pipeline(file).check_commands()


@pytest.mark.parametrize("topic", ['"orders"', '["orders"]', '["orders", "out"]'])
def test_topic_is_another_name_of_topics(tmp_path: Path, topic: str) -> None:
    text = GOOD.replace('topics = ["orders"]', f"topic = {topic}")
    assert read_pipeline(declared(tmp_path, text)).topics[0] == "orders"
    jsonschema.validate(tomllib.loads(text), schema())
    both = tomllib.loads(f'topics = ["orders"]\n{text}')
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(both, schema())


def test_a_declaration_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Some editors on Windows put one there."""
    file = declared(tmp_path, GOOD)
    file.write_text(GOOD, encoding="utf-8-sig")
    assert read_pipeline(file).name == "mine"


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("java -jar app.jar > log.txt 2>&1 &", ">"),
        ("java -jar app.jar >log.txt", ">log.txt"),
        ("java -jar app.jar &>> log.txt", "&>>"),
        ("cd app && python app.py", "&&"),
        ("cd app; python app.py", "app;"),
        ("cat out.csv | sort", "|"),
        ("python app.py < in.txt", "<"),
        ("cat >{work}/out", ">{work}/out"),
    ],
)
def test_a_command_is_not_a_shells(tmp_path: Path, command: str, word: str) -> None:
    """The program would be given the signs as arguments."""
    file = declared(tmp_path, GOOD.replace('command = "cat"', f'command = "{command}"'))
    with pytest.raises(DeclarationError) as told:
        read_pipeline(file)
    assert f"command: {word}: a command has no shell" in str(told.value)


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'cd app && python app.py > log.txt'",
        "psql -F '|' -c 'SELECT 1;'",
        r"find . -exec cat {} \\;",
        "cat X=1 http://nowhere/?a=1&b=2 a->b",
        "sort --delimiter=; -F;",
        "topic=orders group=books",  # for the program that an image starts
    ],
)
def test_what_is_in_quotes_is_an_argument(tmp_path: Path, command: str) -> None:
    file = declared(tmp_path, GOOD.replace('command = "cat"', f'command = "{command}"'))
    read_pipeline(file)
    words = declared(tmp_path, GOOD.replace('command = "cat"', 'command = ["cat", ">", "x"]'))
    assert read_pipeline(words).stages[0].command == ("cat", ">", "x")


@pytest.mark.parametrize("command", ["X=1 python app.py", "X='a b' python app.py"])
def test_no_shell_sets_a_variable(tmp_path: Path, command: str) -> None:
    file = declared(tmp_path, GOOD.replace('command = "cat"', f'command = "{command}"'))
    with pytest.raises(DeclarationError, match=r"'X=.*cannot be started: .*into environment"):
        read_pipeline(file).check_commands()


def test_a_folder_of_any_name_gives_a_pipeline_its_name(tmp_path: Path) -> None:
    """A cell's id has letters, digits, - and _ only."""
    folder = tmp_path / "my orders (new)"
    folder.mkdir()
    assert (
        read_pipeline(declared(folder, GOOD.replace('name = "mine"\n', ""))).name == "my-orders-new"
    )


@pytest.mark.parametrize(
    ("claims", "expects", "allowed"),
    [
        ("at-least-once", "", []),
        ("at-least-once", 'expects = ["duplicated"]', ["duplicated"]),
        ("at-most-once", "", []),
        ("at-most-once", 'expects = ["lost"]', ["lost"]),
        ("exactly-once", "", []),
    ],
)
def test_without_a_fault_only_what_is_expected_may_be_seen(
    tmp_path: Path, claims: str, expects: str, allowed: list[str]
) -> None:
    """What a claim permits after a fault makes a dry run unclean, unless it is declared; what it
    forbids, the promise judges.
    """
    pipeline = read_pipeline(
        declared(
            tmp_path,
            GOOD.replace("at-least-once", claims).replace("claims", f"{expects}\nclaims", 1),
        )
    )
    expectation = failure_points(pipeline)[0].expect[pipeline.claims]
    assert isinstance(expectation, Predicted)
    for name in ("lost", "duplicated"):
        open_to_all = name in allowed or forbids(pipeline.claims, Anomaly(name))
        assert isinstance(getattr(expectation, name), Permitted if open_to_all else Zero), name


def test_other_braces_are_left_alone(tmp_path: Path) -> None:
    """The shell's variables, JSON, templates of other programs; and a name in two pairs of braces
    stands for itself in one.
    """
    words = (
        r"""'sh', '-c', 'echo ${HOME} {a,b} {1..3} {} {{.Names}} {{nope}} {"a": {"b": "{work}"}}'"""
    )
    pipeline = read_pipeline(
        declared(tmp_path, GOOD.replace('command = "cat"', f"command = [{words}]"))
    )
    filled = fill(pipeline.stages[0].command[2], {"work": "/w", "HOME": "/never"})
    assert filled == 'echo ${HOME} {a,b} {1..3} {} {{.Names}} {nope} {"a": {"b": "/w"}}'


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    """Said before anything is started."""
    pipeline = read_pipeline(declared(tmp_path, GOOD.replace('"cat"', '"no-such-program --x"', 1)))
    with pytest.raises(
        DeclarationError, match="the producer's command 'no-such-program' cannot be started"
    ):
        pipeline.check_commands()


@pytest.mark.parametrize("table", ["[[invariant]]\nequals = 0\n", '[invariant]\nequals = "x"\n'])
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "no-such-program {work}",
            (
                "the command of invariant 1 'no-such-program' cannot be started: it is neither on "
                "the PATH nor"
            ),
        ),
        ("sums.sh", "'sums.sh' cannot be started: write ./sums.sh, or {here}/sums.sh"),
        ("./deaf.sh", "deaf.sh is not executable"),
        ("./sums.sh", None),
        ("{here}/sums.sh", None),
        ("{python} sums.py", None),
        ("{jars:x}/run", None),
        ("cat x", None),
    ],
)
def test_what_asks_for_an_invariant_is_there(
    tmp_path: Path, table: str, command: str, said: str | None
) -> None:
    """A command of an invariant, and that of an output, are run as they are written, in the
    declaration's folder.
    """
    (tmp_path / "sums.sh").touch(0o755)
    (tmp_path / "deaf.sh").touch(0o644)
    pipeline = read_pipeline(declared(tmp_path, f"{GOOD}{table}command = '{command}'\n"))
    if said is None:
        pipeline.check_commands()
        return
    with pytest.raises(DeclarationError, match=re.escape(said)):
        pipeline.check_commands()


def test_the_command_of_an_output_is_there(tmp_path: Path) -> None:
    output = 'kind = "command"\ncommand = "no-such-program --x"'
    pipeline = read_pipeline(
        declared(tmp_path, GOOD.replace('kind = "lines"\nfile = "{work}/*.jsonl"', output))
    )
    with pytest.raises(
        DeclarationError, match="the output's command 'no-such-program' cannot be started"
    ):
        pipeline.check_commands()


@pytest.mark.parametrize(
    "change",
    [
        ("claims", 'python = ""\nclaims'),
        ("[output]", '[input]\nheader = ""\n[output]'),
        ('"mine"', '""'),
        ("[output]", '[id]\npattern = ""\n[output]'),
        ("[output]", '[id]\njson = ""\n[output]'),
        ("[output]", 'ready = ""\n[output]'),
        ("[output]", '[aggregate]\nof = "sum"\npattern = ""\n[output]'),
    ],
)
def test_an_empty_text_is_refused(tmp_path: Path, change: tuple[str, str]) -> None:
    """It would mean the default, or find nothing; the field is named."""
    with pytest.raises(
        DeclarationError, match=r": (\w+ ?\d?: )?\w+ is empty: write something, or leave it out$"
    ):
        read_pipeline(declared(tmp_path, GOOD.replace(*change)))


def test_what_a_container_runs_is_in_its_image(tmp_path: Path) -> None:
    """No command is needed, and none is looked for on this machine; an image is no command."""
    pipeline = read_pipeline(
        declared(tmp_path, GOOD.replace("[output]", 'image = "mine:1"\n[output]', 1))
    )
    assert [each.image for each in pipeline.programs if each.image] == ["mine:1"]
    pipeline.check_commands()


def test_an_id_that_cannot_be_found_in_what_is_offered(tmp_path: Path) -> None:
    for pattern, said in (
        ("id=(x+)", "no id is found in the offered"),
        ("(key)", "void: the input has the id 'key' 48 times"),
    ):
        text = GOOD.replace("[output]", f'[id]\npattern = "{pattern}"\n[output]')
        pipeline = read_pipeline(declared(tmp_path, text))
        with pytest.raises(DeclarationError, match=said):
            cells_of(pipeline, failure_points(pipeline)[:1])[0].load()


KINDS = {
    "stdin": ("", ""),
    "file": ('kind = "file"', "{input}"),
    "http": ('kind = "http"\nurl = "http://127.0.0.1:{port}/"', "{port}"),
    "own": ('kind = "own"', ""),
}


@pytest.mark.parametrize("kind", [*KINDS, "topic"])
def test_ids_that_repeat_in_the_input_are_void(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """However it is offered: said before anything is started, with the id and how often it is
    there.
    """
    told, place = KINDS.get(kind, ('kind = "topic"\ntopic = "orders"', ""))
    line = """line = '{"n": "{position}", "of": "{key}"}'"""
    text = GOOD.replace("[output]", f'[input]\n{told}\n{line}\n[id]\njson = "of"\n[output]')
    text = text.replace('command = "cat"', f'command = "cat {place}"')
    if kind == "topic":
        text = text.replace('[[stage]]\nrole = "producer"\ncommand = "cat "\n', "")
    assert (
        main(["check", str(declared(tmp_path, text)), "--reports", str(tmp_path / "reports")]) == 4
    )
    said = capsys.readouterr().err
    assert re.search(
        r"void: the input has the id 'k\d' \d+ times, as in \{.*\}: put a text that differs", said
    ), said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "reports").exists()


def test_failure_points_follow_roles_and_requests(tmp_path: Path) -> None:
    """What does not apply says why: no such stage, or no such request in the dry run."""
    pipeline = read_pipeline(declared(tmp_path, GOOD))
    seen = traffic(producer={"Produce"}, consumer={"Fetch"})
    reasons = {
        scenario.id: expectation.because
        for scenario in failure_points(pipeline, seen)
        if isinstance(expectation := scenario.expect[pipeline.claims], NotApplicable)
    }
    assert (
        reasons["transaction-crash-before-commit"]
        == "the dry run saw no EndTxn request of the producer"
    )
    assert reasons["commit-lost"] == "the dry run saw no OffsetCommit request of the consumer"
    assert "ack-lost" not in reasons
    assert "delivery-lost" not in reasons


@pytest.mark.parametrize(
    ("refusal", "legal"),
    [
        ("Produce TOPIC_AUTHORIZATION_FAILED", True),
        ("Produce CLUSTER_AUTHORIZATION_FAILED", True),
        ("Fetch TOPIC_AUTHORIZATION_FAILED", True),
        ("JoinGroup GROUP_AUTHORIZATION_FAILED", True),
        ("TxnOffsetCommit GROUP_AUTHORIZATION_FAILED", True),
        ("EndTxn TRANSACTIONAL_ID_AUTHORIZATION_FAILED", True),
        ("Fetch GROUP_AUTHORIZATION_FAILED", False),
        ("Heartbeat TOPIC_AUTHORIZATION_FAILED", False),
        ("EndTxn CLUSTER_AUTHORIZATION_FAILED", False),
    ],
)
def test_a_right_is_wanted_by_the_requests_that_need_it(refusal: str, legal: bool) -> None:
    """A broker tells no other request so, and carries out none that it tells so."""
    if legal:
        assert Refusal.read(refusal).error == refusal.split()[1]
        with pytest.raises(DeclarationError, match="take done away"):
            Refusal.read(f"{refusal} done")
        return
    with pytest.raises(DeclarationError, match="can be refused by"):
        Refusal.read(refusal)


def test_each_refusal_of_a_stage_is_a_failure_point(tmp_path: Path) -> None:
    """At the request about the record, or at the first behind it; not applicable where the dry run
    saw no such request.
    """
    named = [
        "OffsetCommit UNKNOWN_MEMBER_ID",
        "OffsetCommit COORDINATOR_NOT_AVAILABLE done",
        "Heartbeat REBALANCE_IN_PROGRESS",
    ]
    pipeline = read_pipeline(
        declared(tmp_path, GOOD.replace("[output]", f"refusals = {named}\n[output]"))
    )
    seen = traffic(consumer={"Fetch", "OffsetCommit"}, producer={"Produce"})
    points = {
        point.id: point
        for point in failure_points(pipeline, seen)
        if point.failure_point == "refused"
    }
    commit, done, beat = points.values()
    assert [*points] == [
        "consumer-offsetcommit-refused-unknown-member-id",
        "consumer-offsetcommit-refused-coordinator-not-available-done",
        "consumer-heartbeat-refused-rebalance-in-progress",
    ]
    assert commit.fault == Answer(
        OnWire(Role.CONSUMER, Api.OFFSET_COMMIT, Direction.REQUEST), "UNKNOWN_MEMBER_ID"
    )
    assert "that is about the record" in commit.because
    assert "The broker carries out the request all the same" in done.because
    assert isinstance(beat.fault, Answer)
    assert beat.fault.at.since == OnWire(Role.CONSUMER, Api.FETCH, Direction.RESPONSE)
    [said] = beat.expect.values()
    assert said == NotApplicable("the dry run saw no Heartbeat request of the consumer")


def test_a_consumer_is_killed_whether_or_not_it_saves_a_position(tmp_path: Path) -> None:
    """Where it reads, it can die; where it is seen to read nothing, nobody kills it, and that is
    said of the whole check.
    """
    pipeline = read_pipeline(declared(tmp_path, GOOD))

    def points(consumer: str) -> tuple[Scenario, ...]:
        return failure_points(pipeline, traffic(producer={"Produce"}, consumer={consumer}))

    reads = points("Fetch")
    kills = [
        point.id
        for point in reads
        if "consumer" in point.fault.evidence().killed
        and isinstance(point.expect[pipeline.claims], Predicted)
    ]
    assert kills == [
        "consumer-crash-before-delivery",
        "consumer-crash-at-next-fetch",
        "consumer-crash-at-first-delivery",
        "consumer-crash-at-last-delivery",
    ]
    assert untried(pipeline, reads) == ()
    assert untried(pipeline, points("Metadata")) == (
        (
            "The consumer is not tried: no failure point kills it (the dry run saw no Fetch "
            "request of the consumer)."
        ),
    )


@pytest.mark.parametrize(
    ("position", "written", "told"),
    [
        ("elsewhere", Written(because="there is no strace"), "there is no strace."),
        (
            "elsewhere",
            Written(),
            (
                "the dry run saw no durable write of the consumer (such as an fsync), or write to "
                "its own files."
            ),
        ),
        ("elsewhere", Written({"fsync": [24]}, 24), None),
        ("group", Written(because="there is no strace"), None),
    ],
)
def test_a_reader_with_a_position_of_its_own_is_tried_at_its_writes(
    tmp_path: Path, position: str, written: Written, told: str | None
) -> None:
    """Where it saves no position in Kafka, what is between result and position no request shows; at
    its fetches it is killed.
    """
    text = GOOD.replace('role = "consumer"', f'role = "consumer"\nposition = "{position}"')
    pipeline = read_pipeline(declared(tmp_path, text))
    seen = traffic(producer={"Produce"}, consumer={"Fetch"})
    seen["consumer"] = dataclasses.replace(seen["consumer"], written=written)
    points = failure_points(pipeline, seen)
    asked = [point for point in points if not left_over(pipeline, point)]
    said = "A crash of the consumer between its result and its position is not tried: "
    assert untried(pipeline, asked) == (() if told is None else (said + told,))


def test_the_next_request_of_one_process_of_several_is_nobodys(tmp_path: Path) -> None:
    text = GOOD.replace('role = "consumer"', 'role = "consumer"\ncrash = "process"')
    pipeline = read_pipeline(declared(tmp_path, text))
    [point] = [
        each for each in failure_points(pipeline) if each.id == "consumer-crash-at-next-fetch"
    ]
    found = point.expect[pipeline.claims]
    assert isinstance(found, NotApplicable)
    assert "cannot tell whether a next request comes from that process" in found.because


def test_what_a_producer_knows_to_be_stored(tmp_path: Path) -> None:
    """An answer counts when it reached the client; in a transaction, when the transaction's end
    did.
    """
    events = (
        {
            "t": 1,
            "event": "sent",
            "record": "a",
            "request": "1:1",
            "transactional": False,
            "producer_id": -1,
        },
        {
            "t": 2,
            "event": "produce_answer",
            "record": "a",
            "error": 0,
            "reached": True,
            "request": "1:1",
        },
        {
            "t": 3,
            "event": "produce_answer",
            "record": "b",
            "error": 0,
            "reached": False,
            "request": "1:2",
        },
        {
            "t": 4,
            "event": "produce_answer",
            "record": "c",
            "error": 7,
            "reached": True,
            "request": "1:3",
        },
        {
            "t": 5,
            "event": "sent",
            "record": "d",
            "request": "1:4",
            "transactional": True,
            "producer_id": 9,
        },
        {
            "t": 6,
            "event": "produce_answer",
            "record": "d",
            "error": 0,
            "reached": True,
            "request": "1:4",
        },
    )
    assert acknowledged(so_far_of(tmp_path, *events)) == {"a"}
    ended = (
        {"t": 7, "event": "end_txn", "request": "1:5", "producer_id": 9, "commit": True},
        {"t": 8, "event": "end_txn_answer", "request": "1:5", "error": 0, "reached": True},
    )
    assert acknowledged(so_far_of(tmp_path, *ended)) == {"a", "d"}


def test_the_examples_are_declared_rightly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every one of them is read, and its commands are there. A machine may lack a database's own
    client; so one is put last on the PATH.
    """
    client = tmp_path / "psql"
    client.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{tmp_path}")
    files = sorted((ROOT / "examples").rglob("pipeline.toml"))
    assert len(files) >= 5
    for file in files:
        read_pipeline(file).check_commands()


def test_sets_of_jars_are_named_in_commands(tmp_path: Path) -> None:
    text = GOOD.replace(
        'command = "cat"',
        'command = "java -cp {jars:a-1}/*:{jars:b-2}/* X"\nenvironment = { Y = "{jars:a-1}" }',
    )
    assert read_pipeline(declared(tmp_path, text)).jars == ("a-1", "b-2")


def test_a_pyspark_is_named_in_an_environment(tmp_path: Path) -> None:
    text = GOOD.replace(
        'command = "cat"', 'command = "cat"\nenvironment = { PYTHONPATH = "{pyspark:4.0.0}" }'
    )
    assert read_pipeline(declared(tmp_path, text)).pysparks == ("4.0.0",)


@pytest.mark.parametrize(
    ("processes", "reason"),
    [
        (None, None),
        (2, None),
        (1, "one process of the consumer"),
        (0, "one process of the consumer"),
    ],
)
def test_a_zombie_needs_somebody_to_take_over(
    tmp_path: Path, processes: int | None, reason: str | None
) -> None:
    pipeline = read_pipeline(declared(tmp_path, GOOD))
    seen = traffic(producer=["Produce"], consumer=["Fetch", "OffsetCommit"])
    fetching = tuple(Owner(n, "", 1, {"Fetch": 1}) for n in range(processes or 0))
    seen["consumer"] = dataclasses.replace(seen["consumer"], processes=fetching)
    [point] = [
        each
        for each in failure_points(pipeline, None if processes is None else seen)
        if each.id == "zombie-consumer"
    ]
    found = point.expect[pipeline.claims]
    because = found.because if isinstance(found, NotApplicable) else None
    assert because == (
        reason
        and (
            f"the dry run saw {reason} at work, and no other process that could take over; to "
            "try this point, let the stage start two processes"
        )
    )


ORDERED = GOOD.replace('file = "{work}/*.jsonl"', 'file = "{work}/out.jsonl"').replace(
    "[[stage]]", 'order = "per key"\n[[stage]]', 1
)


def test_an_order_can_be_claimed(tmp_path: Path) -> None:
    [cell] = cells_of(
        read_pipeline(declared(tmp_path, ORDERED)),
        failure_points(read_pipeline(declared(tmp_path, ORDERED)))[:1],
    )
    assert cell.ordered
    assert plan_of(cell).ordered


def test_guarantees_can_be_claimed(tmp_path: Path) -> None:
    named = '["monotonic", "read-your-writes"]'
    pipeline = read_pipeline(
        declared(tmp_path, GOOD.replace("[[stage]]", f"guarantees = {named}\n[[stage]]", 1))
    )
    [cell] = cells_of(pipeline, failure_points(pipeline)[:1])
    assert plan_of(cell).guarantees == tuple(Guarantee)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("per key", "total"), "order: 'total' is not known; there are: per key"),
        (
            ("claims", 'guarantees = ["monotonous"]\nclaims'),
            "guarantees: 'monotonous' is not known; did you mean monotonic?",
        ),
        (
            ("claims", 'guarantees = ["monotonic", "monotonic"]\nclaims'),
            "guarantees: monotonic is named twice: name each once",
        ),
        (("claims", "guarantees = 'monotonic'\nclaims"), r"guarantees: .* is no list: write it in"),
        (("out.jsonl", "*.jsonl"), "order: results in several files"),
        (
            ('kind = "lines"', 'kind = "delta"'),
            r"order: the rows of a table \(delta\) have no order",
        ),
        (('kind = "lines"', 'kind = "iceberg"'), "order: the rows of a table"),
        (
            ("[output]", "[input]\nline = '{id}'\n[output]"),
            "order: lostack does not know the key of a record",
        ),
        (
            ('kind = "lines"', 'kind = "sqlite"\nquery = "SELECT id FROM t"'),
            "order: the output's query has no order",
        ),
        (
            ("[output]", "[aggregate]\nof = 'count'\n[output]"),
            "order: a total does not show the order of its records",
        ),
        (("[output]", "[aggregate]\nof = 'max'\n[output]"), "aggregate: of: 'max' is not known"),
        (("[output]", "[aggregate]\n[output]"), "aggregate: of is missing"),
        (
            ("[output]", "[input]\nline = '{key} {id} {amount}'\n[output]"),
            r"\{amount\} needs an \[aggregate\]",
        ),
        (("[output]", "[invariant]\nequals = 0\n[output]"), "invariant: write query .* or command"),
        (
            ("[output]", "[invariant]\nquery = 'SELECT 1'\nequals = 0\n[output]"),
            "query needs an output of kind sqlite",
        ),
        (("[output]", "[invariant]\nquery = 'SELECT 1'\n[output]"), "invariant: equals is missing"),
        (
            ("[output]", "[invariant]\nquery = 'SELECT 1'\nequals = nan\n[output]"),
            "equals: nan is not a number that a value can",
        ),
        (
            ("[output]", "[[invariant]]\nquery = 'SELECT 1'\nequals = -inf\n[output]"),
            "equals: -inf is not a number that a value can",
        ),
        (
            ("[output]", "[invariant]\ncommand = 'psql {wrok}'\nequals = 0\n[output]"),
            r"\{wrok\} has no value",
        ),
    ],
)
def test_claims_that_nobody_could_hold_it_to(
    tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    with pytest.raises(DeclarationError, match=said):
        read_pipeline(declared(tmp_path, ORDERED.replace(*change)))


def test_invariants_are_one_or_several(tmp_path: Path) -> None:
    text = ORDERED + "".join(
        f"[[invariant]]\ncommand = 'echo {n}'\nequals = {n}\n" for n in (1, 2.5)
    )
    [one, other] = read_pipeline(declared(tmp_path, text)).invariants
    assert (one.holds("1.0"), one.holds("2"), other.holds("2.50"), other.holds("two")) == (
        True,
        False,
        True,
        False,
    )
    said = Invariant(equals="nan", query="SELECT 'nan'")
    assert (said.holds("nan"), said.holds("0")) == (True, False)


SERVED = (
    GOOD
    + """
[[service]]
name = "db"
command = "cat {db.port} {db.dir}"
"""
)


def test_a_service_has_failure_points_of_its_own(tmp_path: Path) -> None:
    """It dies with a record on its way to who reads, and behind the work, and it stands still; of
    two each is named.
    """
    pipeline = read_pipeline(declared(tmp_path, SERVED))
    points = {
        point.id: point
        for point in failure_points(pipeline)
        if point.failure_point.startswith("service-")
    }
    assert set(points) == {"service-crash", "service-pause", "service-crash-behind-work"}
    assert points["service-crash"].fault.evidence().killed == (Role("db"),)
    assert points["service-pause"].fault.evidence().paused == (Role("db"),)
    assert points["service-crash-behind-work"].fault.at.api is Api.OFFSET_COMMIT  # type: ignore[attr-defined]
    two = read_pipeline(declared(tmp_path, SERVED + SERVED[len(GOOD) :].replace("db", "redis")))
    names = {point.id for point in failure_points(two) if point.failure_point == "service-crash"}
    assert names == {"db-service-crash", "redis-service-crash"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('name = "db"', 'name = "Db"'), "service: name 'Db': use lower-case letters"),
        (
            ('name = "db"', 'name = "broker"'),
            "service: name 'broker' is the name of one of lostack's own nodes",
        ),
        (
            ('name = "db"', 'name = "redis"'),
            r"\{db.port\}: there is no service db; there are: redis",
        ),
        (
            ('name = "db"', 'name = "db"\nanew = "never"'),
            "service 1: anew: 'never' is not known; there are: cell, once",
        ),
        (
            ('command = "cat {db.port} {db.dir}"', ""),
            "the service db has neither command nor image",
        ),
        (("{db.dir}", "{dbdir}"), r"the service db's command: \{dbdir\} has no value"),
        (("{db.dir}", "{password}"), "every user of this machine can see it"),
        (("[[service]]", "[service]"), r"service: write \[\[service\]\]"),
        (
            ("[[service]]", "[[service]]\nname = 'db'\ncommand = 'cat'\n[[service]]"),
            "service: two services are called db",
        ),
        (
            ('command = "cat {db.port}', 'ready = "("\ncommand = "cat {db.port}'),
            "ready: '\\(' of the service db is not a regular",
        ),
        (
            ('command = "cat"', 'command = "cat {db.port} {redis.port}"'),
            r"\{redis.port\}: there is no service redis; ",
        ),
    ],
)
def test_services_that_cannot_be(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        read_pipeline(declared(tmp_path, SERVED.replace(*change)))


def test_the_port_of_a_service_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"write a \[\[service\]\] of that name"):
        read_pipeline(
            declared(tmp_path, GOOD.replace('command = "cat"', 'command = "cat {db.port}"'))
        )


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (
            "[input]\nkind = 'own'\nheader = 'a'\nline = '{position}'\n[id]\npattern = 'x'\n",
            "header has no meaning for kind own",
        ),
        ('[input]\nheader = "a\\nb"\n', "header must be one line"),
    ],
)
def test_a_header_that_nobody_reads(tmp_path: Path, said: str, problem: str) -> None:
    with pytest.raises(DeclarationError, match=problem):
        read_pipeline(declared(tmp_path, GOOD + said))


TWO = (
    GOOD
    + """
[[stage]]
role = "consumer"
name = "audit"
command = "cat"
"""
)


def test_several_stages_of_a_role_are_known_by_their_names(tmp_path: Path) -> None:
    pipeline = read_pipeline(declared(tmp_path, TWO))
    assert [str(stage.known) for stage in pipeline.stages] == ["producer", "consumer", "audit"]
    assert (pipeline.named, pipeline.reads("audit"), pipeline.reads("producer")) == (
        ("audit",),
        True,
        False,
    )
    points = {point.id: point for point in failure_points(pipeline)}
    for name in ("consumer", "audit"):
        kills = points[f"{name}-crash-before-delivery"].fault.evidence().killed
        assert kills == (Role(name),)
        assert points[f"{name}-commit-lost"].failure_point == "commit-lost"
    assert points["audit-broker-crash-before-position"].fault.evidence().killed == (Role.BROKER,)
    assert points["audit-commit-lost"].because.startswith(
        "The audit has asked to save its position"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('name = "audit"\n', ""), "two stages are a consumer: give each its own name"),
        (('name = "audit"', 'name = "Audit"'), "stage: name 'Audit': use lower-case letters"),
        (
            ('name = "audit"', 'name = "broker"'),
            r"stage: name 'broker': .* no name of lostack's own",
        ),
        (
            ('role = "consumer"\nname = "audit"', 'role = "producer"\nname = "other"'),
            "two stages are a producer, but only one",
        ),
        (
            ("[output]", '[[service]]\nname = "audit"\ncommand = "cat"\n[output]'),
            "two stages or services are called audit: give",
        ),
        (
            ("[output]", '[[stage]]\nrole = "consumer"\nname = "audit"\ncommand = "cat"\n[output]'),
            "are called audit: give",
        ),
        (
            ('name = "mine"', 'name = "mine"\nsystem = "activemq"'),
            "name: has no meaning for the consumer on activemq",
        ),
    ],
)
def test_names_that_stages_cannot_have(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        read_pipeline(declared(tmp_path, TWO.replace(*change)))


def test_no_two_failure_points_have_one_name() -> None:
    """Nor does the name of one say that a stage is crashed where the broker is: cells are saved by
    these names.
    """
    for file in sorted((ROOT / "examples").rglob("*.toml")):
        points = failure_points(read_pipeline(file))
        names = [point.id for point in points]
        assert len(names) == len(set(names)), file
        for point in points:
            if Role.BROKER in point.fault.evidence().killed:
                assert re.search("(broker|leader|coordinator)-crash", point.id)


CLUSTERS = (
    "coordinator-crash-after-position",
    "coordinator-moved-before-position",
    "insync-not-met",
    "lagging-follower-leads",
    "leader-crash-before-replication",
    "leader-crash-while-reading",
    "leader-moved-while-reading",
    "leader-moved-while-sending",
    "rolling-restart-while-reading",
    "rolling-restart-while-sending",
    "transaction-coordinator-crash-before-commit",
    "transaction-coordinator-crash-before-commit-answer",
    "transaction-coordinator-moved",
)
AHEAD = "leader-crash-before-replication"
LONG = {name for name in CLUSTERS if re.search("crash-|rolling|insync", name)} - {AHEAD}


@pytest.mark.parametrize(
    ("brokers", "why"),
    [
        ("", "lostack starts one broker; to try it with several, say brokers = 3"),
        (
            "brokers = 3\nbroker = { replicas = 1 }\n",
            "one broker has each topic (replicas = 1)",
        ),
        ("brokers = 3\n", None),
    ],
)
def test_another_broker_leads_where_there_are_several(
    tmp_path: Path, brokers: str, why: str | None
) -> None:
    text = (ROOT / "examples" / "orders" / "pipeline.toml").read_text(encoding="utf-8")
    pipeline = read_pipeline(declared(tmp_path, brokers + text))
    found = {
        each.id: each
        for each in failure_points(pipeline)
        if isinstance(each.fault, TakenOver) and "broker-crash" not in each.id
    }
    assert tuple(sorted(found)) == CLUSTERS
    for each in found.values():
        said = each.expect[pipeline.claims]
        assert isinstance(said, NotApplicable) is (why is not None)
        assert why is None or str(getattr(said, "because", "")).startswith(why)
    shown = {name for name, each in found.items() if not left_over(pipeline, each)}
    assert shown == ({"leader-crash-before-replication"} if not brokers else set(CLUSTERS))
    stops = {name for name, each in found.items() if each.deployment is Deployment.OWN}
    assert stops == LONG | {AHEAD}
    assert {name for name, each in found.items() if is_long(each)} == LONG


@pytest.mark.parametrize("brokers", [1, 3])
def test_of_an_attached_cluster_only_the_pipelines_own_leaders_are_moved(brokers: int) -> None:
    """Where the declaration says that it has several brokers. Each other point says why not."""
    text = ROOT / "examples" / "orders" / "pipeline.toml"
    pipeline = dataclasses.replace(read_pipeline(text), brokers=brokers)
    seen = traffic(producer={"Produce"}, consumer={"Fetch"})
    found = {
        each.id: each.expect[pipeline.claims]
        for each in failure_points(pipeline, seen, attached=True)
        if isinstance(each.fault, TakenOver)
    }
    assert set(CLUSTERS) <= set(found)
    for name, said in found.items():
        if brokers == 1:
            because = "if the attached cluster has several brokers, say brokers = 3"
        elif name in {*LONG, AHEAD} or "broker-crash" in name:
            because = "not started by lostack"
        elif name.startswith("leader-moved"):
            assert not isinstance(said, NotApplicable), name
            continue
        elif name == "lagging-follower-leads":
            because = "does not go through the wire of an attached cluster"
        else:
            assert "coordinator" in name
            because = "belongs to everybody on an attached cluster"
        assert isinstance(said, NotApplicable), name
        assert because in said.because, name


def test_a_killed_broker_of_several_is_the_one_that_the_frame_is_for(tmp_path: Path) -> None:
    """And another takes over before it comes back. One alone is only killed."""
    text = (ROOT / "examples" / "orders" / "pipeline.toml").read_text(encoding="utf-8")
    for brokers, kind in (("", Kill), ("brokers = 3\n", TakenOver)):
        points = failure_points(read_pipeline(declared(tmp_path, brokers + text)))
        found = [each.fault for each in points if each.id.startswith("broker-crash-before")]
        assert found
        assert {type(fault) for fault in found} == {kind}


REBALANCES = (
    "member-joins-with-record-in-hand",
    "member-joins-then-first-is-killed",
    "member-joins-and-leaves",
    "member-leaves-with-record-in-hand",
    "other-member-leaves-with-record-in-hand",
    "member-put-out-before-position",
    "member-put-out-after-position",
    "member-put-out-while-it-joins",
)


@pytest.mark.parametrize(
    ("change", "asked", "why"),
    [
        (("", ""), None, "lostack starts one consumer; if several may run at once, say scale = 2"),
        (("[output]", "scale = 2\n[output]"), None, None),
        (("[output]", "scale = 2\n[output]"), ("JoinGroup",), None),
        (
            ("[output]", "scale = 2\n[output]"),
            (),
            "the dry run saw no JoinGroup or ConsumerGroupHeartbeat of the consumer",
        ),
        (
            ("claims", "partitions = 1\nclaims"),
            None,
            "its topic has one partition, which one consumer has as long as it lives: set",
        ),
    ],
)
def test_members_come_and_go_where_there_are_several(
    tmp_path: Path, change: tuple[str, str], asked: tuple[str, ...] | None, why: str | None
) -> None:
    """And a topic that they can share, and a group. Of a lone stage the reason stands once."""
    text = GOOD.replace(*change, 1)
    if "partitions = 1" in text:
        text = text.replace("[output]", "scale = 2\n[output]")
    pipeline = read_pipeline(declared(tmp_path, text))
    steps = ("Fetch", "OffsetCommit")
    seen = None if asked is None else traffic(consumer=(*steps, *asked))
    found = {
        each.id: each for each in failure_points(pipeline, seen) if each.failure_point in REBALANCES
    }
    assert tuple(sorted(found)) == tuple(sorted(REBALANCES))
    expected = found[REBALANCES[0]].expect[pipeline.claims]
    said = expected.because if isinstance(expected, NotApplicable) else None
    assert said is None if why is None else said is not None and said.startswith(why)
    shown = [name for name, each in found.items() if not left_over(pipeline, each)]
    assert len(shown) == (1 if change == ("", "") else len(REBALANCES))


UNTOLD = "the dry run saw no Heartbeat or ConsumerGroupHeartbeat of the consumer"


@pytest.mark.parametrize(
    ("saves", "heartbeat", "why"),
    [
        ("OffsetCommit", "Heartbeat", None),
        (
            "TxnOffsetCommit",
            "Heartbeat",
            (
                "the dry run saw no OffsetCommit request of the consumer: it saves its position in "
                "its transactions"
            ),
        ),
        ("OffsetCommit", "ConsumerGroupHeartbeat", None),
        ("OffsetCommit", "SyncGroup", UNTOLD),
    ],
)
@pytest.mark.parametrize("name", ["asked", "answered"])
def test_who_is_told_late_saves_a_position_by_a_request_of_its_own(
    tmp_path: Path, name: str, saves: str, heartbeat: str, why: str | None
) -> None:
    """A position in a transaction is none. The fault begins as the record is delivered."""
    text = GOOD.replace("[output]", "scale = 2\n[output]")
    pipeline = read_pipeline(declared(tmp_path, text))
    seen = traffic(consumer=("Fetch", "JoinGroup", saves, heartbeat))
    point = f"member-joins-while-position-is-{name}"
    [found] = [each for each in failure_points(pipeline, seen) if each.failure_point == point]
    expected = found.expect[pipeline.claims]
    assert (expected.because if isinstance(expected, NotApplicable) else None) == why
    assert isinstance(found.fault, ToldLate)
    assert (found.fault.at.api, found.fault.at.direction) == (Api.FETCH, Direction.RESPONSE)


def test_rows_that_are_inserted_at_once_have_no_order(tmp_path: Path) -> None:
    """Four transactions by default; one, if that is declared."""
    told = f"[input]\n{TABLE}\ntable = 't'"
    text = GOOD.replace("[output]", f"{told}\n[output]").replace("*.jsonl", "r.jsonl")
    pipeline = read_pipeline(declared(tmp_path, text))
    assert pipeline.input.at_once == 4
    assert pipeline.input.columns == ("id", "key", "position")
    ordered = f'order = "per key"\n{text}'
    with pytest.raises(DeclarationError, match="set writers = 1"):
        read_pipeline(declared(tmp_path, ordered))
    one = read_pipeline(declared(tmp_path, ordered.replace(told, f"{told}\nwriters = 1")))
    assert one.input.at_once == 1


READER = """
claims = "at-least-once"
topics = ["a", "b", "out"]
[[stage]]
role = "consumer"
command = "cat"
[input]
kind = "topic"
%s
[output]
kind = "topic"
topic = "out"
"""


def test_several_topics_are_offered_records(tmp_path: Path) -> None:
    """By their keys; each point is tried with a record of each."""
    pipeline = read_pipeline(declared(tmp_path, READER % 'topics = ["a", "b"]'))
    points = failure_points(pipeline)
    names = [point.id for point in points]
    assert "commit-lost-in-a" in names
    assert "commit-lost-in-b" in names
    assert "commit-lost" not in names
    for cell in cells_of(pipeline, points):
        of = cell.topic_of()
        assert {*of.values()} == {"a", "b"}
        keys = {(record.key, of[record.id]) for record in cell.load().records}
        assert len(keys) == len({key for key, _ in keys}), "a key has one topic"
        assert cell.scenario.topic in ("", of[cell.load().target.id])
    assert pipeline.between == ("a", "b")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "kind topic needs topic, the topic's name"),
        ('topic = "a"\ntopics = ["a", "b"]', "topic and topics: write one of the two"),
        ('topics = ["a"]', "topics names 1: write 2 to 4, or topic for one alone"),
        ('topics = ["a", "a"]', "a is named twice"),
        ('topics = ["a", "c"]', "topic c is not among topics"),
        ('topics = ["a", "out"]', "output: lostack itself produces into the topic out"),
        ('topics = "a"', "topics: 'a' is no list"),
    ],
)
def test_topics_that_cannot_be_are_named(tmp_path: Path, lines: str, said: str) -> None:
    with pytest.raises(DeclarationError) as told:
        read_pipeline(declared(tmp_path, READER % lines))
    assert said in str(told.value)


def test_a_folder_to_build_has_a_dockerfile(tmp_path: Path) -> None:
    """Else the check ends before anything is started."""
    file = declared(tmp_path, GOOD.replace('command = "cat"', 'build = "mine"', 1))
    pipeline = read_pipeline(file)
    assert pipeline.stages[0].image == "built from mine"
    assert dataclasses.replace(pipeline.stages[0], restart=False).image == "built from mine"
    with pytest.raises(DeclarationError, match="mine has no Dockerfile, from which the producer"):
        pipeline.check_commands()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "Dockerfile").write_text("FROM scratch", encoding="utf-8")
    pipeline.check_commands()


@pytest.mark.parametrize("image", ["build:latest", "build:5000/mine", "built"])
def test_an_image_is_not_taken_for_a_folder(
    tmp_path: Path, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is called: it is pulled, and what has a folder beside it is built."""
    done: list[object] = []
    monkeypatch.setattr(engine, "connect", lambda: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(images, "users_image", lambda _, name, __: done.append(name))
    monkeypatch.setattr(images, "built_image", lambda _, __, folder, ___: done.append(folder))
    for line in (f'image = "{image}"', 'build = "latest"'):
        file = declared(tmp_path, GOOD.replace('command = "cat"', line, 1))
        DeclaredSystem()._fetch_images([read_pipeline(file)], print)
    assert done == [image, tmp_path.resolve() / "latest"]


def test_two_declarations_build_each_from_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though both call it by the same name."""

    def built(_: object, name: str, folder: Path, __: object) -> engine.Image:
        return engine.Image(name, folder.name, f"sha256:{folder.name}")

    monkeypatch.setattr(engine, "connect", lambda: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(images, "built_image", built)
    source: Any = SimpleNamespace(versions=dict)
    system, pipelines = DeclaredSystem(source=source), []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        text = GOOD.replace('command = "cat"', 'build = "."', 1)
        pipelines.append(read_pipeline(declared(tmp_path / name, text)))
    system._fetch_images(pipelines, print)
    for pipeline in pipelines:
        values = {"bootstrap": "", "work": ""}
        folder = pipeline.directory
        command = StageCommand(pipeline.stages[0], values, folder, folder, folder)
        known = command.spec("k").container.image
        assert system._fetched.images[known].reference == pipeline.directory.name
    assert system.versions()["image built from ."] == "one (one), other (other)"


def test_a_run_names_the_versions_of_what_was_fetched_for_its_stages() -> None:
    """A report that convicts a connector says which one."""
    source: Any = SimpleNamespace(versions=lambda: {"kafka": "4.4.0"})
    system = DeclaredSystem(source=source)
    for name in ("connect-4.3.0", "debezium-postgres-3.7.0.Final"):
        system._fetched.jars[name] = Path(name)
    assert system.versions() == {
        "kafka": "4.4.0",
        "connect": "4.3.0",
        "debezium-postgres": "3.7.0.Final",
    }


@pytest.mark.parametrize("image", ["built from mine", "my image", " mine", "-v"])
def test_what_can_be_no_image_is_refused(tmp_path: Path, image: str) -> None:
    file = declared(tmp_path, GOOD.replace('command = "cat"', f'image = "{image}"', 1))
    with pytest.raises(DeclarationError, match="cannot be the name of an image"):
        read_pipeline(file)
