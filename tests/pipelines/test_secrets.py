"""Secrets of a declaration reach its programs, and nothing that is printed or kept."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import tomllib
from errno import ENOSPC
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from harness import cli
from harness.model.failures import UsageError
from harness.model.plan import Plan, plan_of
from harness.model.secrets import (
    MASK,
    is_secret,
    mask_file,
    masked,
    masked_settings,
    register_secrets,
    with_variables,
)
from harness.pipelines import read_pipeline
from harness.pipelines.cells import cells_of
from harness.pipelines.failure_points import failure_points
from harness.sweep.exporting import _concealed
from harness.systems.declared.programs.command import StageCommand
from harness.systems.declared.programs.services import SharedServices
from harness.systems.declared.system import DeclaredDeployed

if TYPE_CHECKING:
    from harness.pipelines import Pipeline

ROOT = Path(__file__).parents[2]
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
PEM = "-----BEGIN EC PRIVATE KEY-----\\nMHcCAQEEIBbAmhAYd0hKFvP\\n-----END EC PRIVATE KEY-----"
SECRETS = {
    "DB_PASSWORD": "correct-h0rse-battery",
    "PGPASSWORD": "swordfish",
    "STRIPE_API_KEY": "rk9-live-4242",
    "SESSION_TOKEN": "t0k3n-of-a-session",
    "CREDENTIALS": "me/and/my-pass-word",
    "DATABASE_URL": "postgresql://shop:p4ssw0rd-of-shop@127.0.0.1/shop",
    "AUTH": JWT,
    "SIGNED_BY": PEM,
    "JAAS_LINE": "org.x.Login required username=a password='in-a-jaas-line';",
}
"""Variables whose values are secrets, by their names or by their shapes."""
TRACES = (
    "correct-h0rse-battery",
    "swordfish",
    "rk9-live-4242",
    "t0k3n-of-a-session",
    "my-pass-word",
    "p4ssw0rd-of-shop",
    "c2lnbmF0dXJl",
    "MHcCAQEEIBbAmhAYd0hKFvP",
    "in-a-jaas-line",
)
"""What would give them away."""
OPEN = {"SASL_PASSWORD": "{work}/password", "KEY_SERIALIZER": "text", "GROUP": "billing"}
CONSUMER = """
import os
for name, value in os.environ.items():
    print(name, "=", value, flush=True)
print("connecting to", os.environ["DATABASE_URL"], flush=True)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A declaration with secrets: the example, whose consumer prints its environment."""
    folder = tmp_path / "shop"
    folder.mkdir()
    example = ROOT / "examples" / "orders"
    for name in ("producer.py", "consumer.py"):
        text = (example / name).read_text(encoding="utf-8")
        (folder / name).write_text(CONSUMER + text if name[0] == "c" else text, encoding="utf-8")
    pairs = ", ".join(f'{name} = "{value}"' for name, value in (SECRETS | OPEN).items())
    command = 'command = "{python} consumer.py {work}/orders.db"'
    text = (example / "pipeline.toml").read_text(encoding="utf-8")
    assert command in text
    declared = text.replace(command, f"{command}\nenvironment = {{ {pairs} }}")
    (folder / "pipeline.toml").write_text(declared, encoding="utf-8")
    return folder / "pipeline.toml"


def traces(text: str) -> list[str]:
    """Return what gives a secret away."""
    return [trace for trace in TRACES if trace in text]


def saved_plan(pipeline: Pipeline) -> str:
    """Return the text of a plan of the pipeline."""
    [cell, *_] = cells_of(pipeline, failure_points(pipeline))
    return plan_of(cell).to_json()


def test_a_plan_has_no_secret_and_is_whole(file: Path) -> None:
    """Its seal fits what is written; what is no secret stays."""
    pipeline = read_pipeline(file)
    text = saved_plan(pipeline)
    assert traces(text) == []
    consumer = Plan.from_json(text).settings["stages"][1]
    assert consumer["environment"]["DB_PASSWORD"] == MASK
    assert consumer["environment"]["DATABASE_URL"] == "postgresql://shop:***@127.0.0.1/shop"
    assert OPEN.items() <= consumer["environment"].items()
    assert pipeline.stages[1].environment["DB_PASSWORD"] == SECRETS["DB_PASSWORD"]


def test_programs_get_the_real_values(file: Path) -> None:
    """What is started has them; only the look at them is masked."""
    values = {"bootstrap": "127.0.0.1:1", "work": Path("w")}
    stage = read_pipeline(file).stages[1]
    given = StageCommand(stage, values, Path(), Path("l"), Path("f")).spec("k").env
    assert given["DB_PASSWORD"] == SECRETS["DB_PASSWORD"]
    assert given["DATABASE_URL"] == SECRETS["DATABASE_URL"]


def test_a_log_is_masked_in_its_place(file: Path, tmp_path: Path) -> None:
    """By what the declaration has, and by shape; in a long log, too. Nobody else reads it."""
    read_pipeline(file)
    log = tmp_path / "consumer.log"
    lines = "\n".join(f"{name} = {value}" for name, value in SECRETS.items())
    for filler in ("", "a line\n" * 20_000):
        log.write_bytes(f"{filler}{lines}\nthe end\n".encode() + b"\xff\n")
        log.chmod(0o644)
        mask_file(log)
        kept = log.read_bytes()
        assert traces(kept.decode(errors="replace")) == []
        assert kept.endswith(b"the end\n\xff\n")
        assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_plain_word_is_masked_where_it_is_declared_and_nowhere_else() -> None:
    """``postgres`` is many things besides a password."""
    assert masked_settings({"environment": {"PASSWORD": "postgres"}}) == {
        "environment": {"PASSWORD": MASK}
    }
    assert masked("postgres is ready") == "postgres is ready"


def test_a_copy_for_a_bug_report_has_none(file: Path) -> None:
    before = read_pipeline(file)
    file.write_text(_concealed(file), encoding="utf-8")
    assert traces(file.read_text(encoding="utf-8")) == []
    after = read_pipeline(file)
    assert after.stages[1].environment.keys() == before.stages[1].environment.keys()
    assert after.stages[1].environment["GROUP"] == "billing"


@pytest.mark.parametrize(
    "pairs",
    [
        r'{ PGPASSWORD = "sw\u006frdfish" }',
        r'{ PGPASSWORD = "sword\"fish" }',
        "{ PGPASSWORD = '''swordfish''' }",
        r'{ "PGPASS\u0057ORD" = "swordfish" }',
        r'{ DB = "x://me:sw\u006frd@db" }',
        r'{ DB = "x --pass\u0077ord sword" }',
    ],
)
@pytest.mark.parametrize("dotted", [False, True])
def test_a_copy_has_none_however_it_is_written(file: Path, pairs: str, dotted: bool) -> None:
    """TOML has many forms of one value; comments and order stay."""
    [line] = [each for each in file.read_text(encoding="utf-8").splitlines() if "PGPASS" in each]
    name, _, value = pairs.strip("{ }").partition(" = ")
    written = f"environment.{name} = {value}" if dotted else f"environment = {pairs}"
    text = file.read_text(encoding="utf-8").replace(
        line, f"# mine: --token t0k3n\n{written} # token = 't0k3n'"
    )
    file.write_text(text, encoding="utf-8")
    [secret] = read_pipeline(file).stages[1].environment.values()
    copy = _concealed(file)
    told = masked_settings(tomllib.loads(text))
    assert tomllib.loads(copy) == told
    assert MASK in str(told)
    assert secret not in str(tomllib.loads(copy))
    assert value not in copy
    assert f"# mine: --token {MASK}\n" in copy
    assert f"# token = '{MASK}'\n" in copy


def test_what_cannot_be_masked_is_not_exported(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tomlkit.dumps", lambda _: file.read_text(encoding="utf-8"))
    with pytest.raises(UsageError, match="cannot be masked: take them out of it"):
        _concealed(file)


def test_a_broker_s_settings_may_be_secret(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    settings = '\n[broker]\nsettings = { "registry.password" = "opensesame", "n.pwd" = 481516 }\n'
    file.write_text(text + settings, encoding="utf-8")
    for told in (_concealed(file), saved_plan(read_pipeline(file))):
        assert "opensesame" not in told
        assert "481516" not in told


def test_a_secret_that_is_part_of_another_hides_none_of_it() -> None:
    for name in ("A_SECRET", "B_SECRET", "C_SECRET"):
        register_secrets(
            [{name: "part-0f-it" + {"A": "", "B": "-and-m0re", "C": "-and-m0re-still"}[name[0]]}]
        )
    assert masked("x part-0f-it-and-m0re-still y part-0f-it-and-m0re z") == f"x {MASK} y {MASK} z"


def test_the_log_of_a_service_that_stays_up_is_masked_at_the_end(tmp_path: Path) -> None:
    """When the run ends: no cell's end comes for it."""
    register_secrets([{"DB_PASSWORD": SECRETS["DB_PASSWORD"]}])
    standing = SharedServices(tmp_path)
    service: Any = SimpleNamespace(name="database")
    placed = standing.take("pipeline.toml", service)
    placed.folder.mkdir(parents=True)
    placed.log.write_text(f"logged in with {SECRETS['DB_PASSWORD']}\n", encoding="utf-8")
    other: Any = SimpleNamespace(name="silent")
    standing.take("pipeline.toml", other)
    standing.close()
    assert placed.log.read_text(encoding="utf-8") == f"logged in with {MASK}\n"


def test_what_a_broker_was_told_is_masked_when_it_has_ended(tmp_path: Path) -> None:
    """Its settings and its logs stay with the run; its data is left as it is."""
    register_secrets([{"DB_PASSWORD": SECRETS["DB_PASSWORD"]}])
    open_text = f"listen = {SECRETS['DB_PASSWORD']}\n"
    (tmp_path / "data").mkdir()
    (tmp_path / "linked.log").symlink_to(tmp_path / "data" / "0.log")
    names = ("broker-1.properties", "standalone.conf", "broker.log")
    for name in (*names, "data/0.log"):
        (tmp_path / name).write_text(open_text, encoding="utf-8")
    ended: list[str] = []

    def end() -> None:
        ended.append((tmp_path / names[0]).read_text(encoding="utf-8"))

    brokers: Any = SimpleNamespace(directory=tmp_path, close=end)
    nothing: Any = None
    DeclaredDeployed(brokers, nothing, nothing).close()
    assert ended == [open_text], "a running broker may still read it"
    assert {(tmp_path / name).read_text(encoding="utf-8") for name in names} == {
        f"listen = {MASK}\n"
    }
    assert (tmp_path / "data" / "0.log").read_text(encoding="utf-8") == open_text


@pytest.mark.parametrize(
    "words",
    [
        ["psql", "--password", "hunter2-and-more"],
        ["psql", "--password=hunter2-and-more"],
        ["psql", "postgresql://me:hunter2-and-more@db/shop"],
        ["curl", "-H", "Authorization: Bearer hunter2-and-more"],
        ["run", "-Dpassword=hunter2-and-more"],
    ],
)
def test_secrets_in_a_command(words: list[str]) -> None:
    assert "hunter2" not in json.dumps(masked_settings({"command": words}))
    assert "hunter2" not in masked(shlex.join(words).replace("'", ""))
    assert words[0] in masked(shlex.join(words))


@pytest.mark.parametrize(
    "text",
    [
        "security: password_from: the environment variable X is not set",
        'line = \'{"token": "{id}"}\'',
        "connected to http://127.0.0.1:8081/subjects?x=a@b",
        "the registry refused the log-in of user shop: 401",
        "at-least-once forbids loss: 1 lost (k3-30 delivered, not recorded)",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """A mask over it would hide what a user must see."""
    assert masked(text) == text


BODY = "4eC39HqLyjWDarjtT1zdp7dc5ab0c9def12345678"
TOKENS = (
    *(f"{kind}_{stage}_{BODY[:24]}" for kind in ("sk", "rk") for stage in ("live", "test")),
    f"whsec_{BODY}",
    *(f"gh{kind}_{BODY[:36]}" for kind in "pousr"),
    f"github_pat_{BODY}",
    *(f"{kind}-{BODY[:20]}" for kind in ("glpat", "gldt", "glrt")),
    f"AKIA{BODY[:16].upper()}",
    f"ASIA{BODY[:16].upper()}",
    f"AIza{BODY[:35]}",
    f"ya29.{BODY}",
    f"GOCSPX-{BODY[:28]}",
    f"dop_v1_{'0a1b2c3d' * 8}",
    f"dapi{'0a1b2c3d' * 4}",
    f"hvs.{BODY}",
    f"xoxb-1234567890-{BODY[:24]}",
    f"xapp-1-{BODY}",
    f"https://hooks.slack.com/services/T0000/B0000/{BODY[:24]}",
    f"SG.{BODY[:22]}.{BODY}",
    f"sk-proj-{BODY}",
    f"hf_{BODY[:34].replace('_', 'x')}",
    f"npm_{BODY[:36]}",
    f"pypi-AgEIcHlwaS5vcmc{BODY}",
    f"dckr_pat_{BODY[:27]}",
    f"shpat_{'0a1b2c3d' * 4}",
    f"glsa_{BODY}",
)
"""Made up, each in the form of a token that is known by how it begins."""


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: token[:12])
def test_a_token_is_known_by_how_it_begins(token: str) -> None:
    """In a command, a log, JSON, and under a name that tells nothing."""
    assert masked(f"./charge {token} now") == f"./charge {MASK} now"
    assert masked(f'{{"it": "{token}"}}') == f'{{"it": "{MASK}"}}'
    assert masked_settings({"environment": {"SHOP": token}}) == {"environment": {"SHOP": MASK}}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('PIN="4711"', 'PIN="***"'),
        ("PIN=4711 ./pay", "PIN=*** ./pay"),
        ("CARD_PIN = '4711'", "CARD_PIN = '***'"),
        ("cardPin: 4711", "cardPin: ***"),
        ('{"pin": "4711", "n": 4711}', '{"pin": "***", "n": 4711}'),
        ('{"cvv":471}', '{"cvv":***}'),
        ("./pay --pin 4711 --port 4711", "./pay --pin *** --port 4711"),
        ("./pay --card-pin=4711", "./pay --card-pin=***"),
        ("otp: 471147", "otp: ***"),
        ('passcode = "open sesame"', 'passcode = "***"'),
        ("x;AccountKey=bXkga2V5;y=1", "x;AccountKey=***;y=1"),
    ],
)
def test_a_short_number_may_be_a_secret(text: str, shown: str) -> None:
    """By its name; the same number elsewhere stays."""
    assert masked(text) == shown


@pytest.mark.parametrize("words", [["./pay", "--pin", "4711"], ["./pay", "--passcode", "4711"]])
def test_a_short_number_behind_an_option(words: list[str]) -> None:
    assert masked_settings({"command": words}) == {"command": [*words[:2], MASK]}


@pytest.mark.parametrize(
    "text",
    [
        "spin=4711 pins the pin 4711, pinned = 1000, shipping: 12345",
        "pin=7, pin: 12 and a pin=47.5",
        "a key begins with sk_live_ or sk_test_, as rk_live_orders does not",
        "npm_config_registry=https://npm.example hf_transfer=1 hf_hub_enable",
        "AKIATIME and ASIAN_MARKETS_OF_THE_EAST are topics, SG.orders.v1 another",
        "task-with-a-long-name-of-words-and-numbers-4711, disk-usage-of-the-broker-in-bytes",
        "bypass = 1, compass: north, accounting = weekly, the account key is known",
        "dapi is not an API; the shop is at https://hooks.slack.com/services/",
    ],
)
def test_what_looks_a_little_like_a_secret_stays(text: str) -> None:
    assert masked(text) == text


def test_names() -> None:
    assert all(is_secret(name) for name in SECRETS if name not in {"DATABASE_URL", "SIGNED_BY"})
    assert not any(is_secret(name) for name in OPEN if name != "SASL_PASSWORD")
    assert not is_secret("AWS_ACCESS_KEY_ID")
    for name in ("PIN", "CARD_PIN", "userPin", "PASSCODE", "DOOR_PASSCODE", "PASSKEY", "WIFI_PSK"):
        assert is_secret(name), name
    for name in ("SPIN", "PINS_PATH", "PINNED", "PINCODE_COUNT", "COMPASS", "SHIPPING", "OPTION"):
        assert not is_secret(name), name


@pytest.mark.kafka
@pytest.mark.rest
@pytest.mark.timeout(300)
def test_nothing_of_a_whole_check_gives_a_secret_away(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither a file of it, nor what is printed; its consumer prints all that it is given."""
    monkeypatch.chdir(file.parent)
    code = cli.main(["check", "pipeline.toml", "--only", "commit-lost"])
    assert code in {0, 4}
    run = Path("reports/latest").resolve()
    assert cli.main(["judge", str(run)]) == 0
    assert cli.main(["report", str(run), "--format", "markdown"]) == 0
    assert traces("".join(capfd.readouterr())) == []
    logs = [log for log in run.rglob("consumer.log") if "connecting to" in log.read_text()]
    assert logs, "the consumer has printed its environment"
    assert [stat.S_IMODE(log.stat().st_mode) for log in logs] == [0o600] * len(logs)
    found = [
        (str(each), traces(each.read_bytes().decode(errors="replace")))
        for each in Path("reports").rglob("*")
        if each.is_file() and not each.is_symlink()
    ]
    assert [each for each in found if each[1]] == []


@pytest.mark.parametrize("before", [-90, 210, 810, 2010])
def test_a_secret_of_several_lines_is_masked_in_a_long_log(before: int, tmp_path: Path) -> None:
    """Wherever it lies, by its shape and because it was brought; what is around it stays."""
    register_secrets([{"SIGNING_SECRET": "line-0ne-of-it\nline-tw0-of-it"}])
    body = "\n".join("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" for _ in range(30))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    log = tmp_path / "consumer.log"
    for secret in (key, "line-0ne-of-it\nline-tw0-of-it"):
        filler = b"a line\n" * (((1 << 20) - (1 << 16) - before) // 7)
        log.write_bytes(filler + f"here: {secret}\n".encode() + filler + b"\xff\n")
        mask_file(log)
        assert log.read_bytes() == filler + b"here: ***\n" + filler + b"\xff\n"


def test_a_key_that_does_not_end_hides_what_may_be_of_it_only(tmp_path: Path) -> None:
    """A log may name the first line of one, and go on."""
    log = tmp_path / "consumer.log"
    log.write_text("-----BEGIN PRIVATE KEY-----\n" + "a line\n" * 200_000)
    mask_file(log)
    assert log.read_text().startswith(MASK)
    assert log.read_text().count("a line") > 190_000


def test_a_name_at_the_end_of_a_line_hides_nothing_of_the_next() -> None:
    assert masked("password=\nfetched k3-17 token:\nx") == "password=\nfetched k3-17 token:\nx"


def test_a_log_that_cannot_be_masked_stays_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a full disk nothing half-written lies beside it, and nothing of a killed process is in
    the way.
    """
    log = tmp_path / "consumer.log"
    log.write_text("token=abcdefgh\n")
    with monkeypatch.context() as patch:
        patch.setattr("harness.model.secrets.masked", failing)
        with pytest.raises(OSError, match="No space left"):
            mask_file(log)
    assert [file.name for file in tmp_path.iterdir()] == ["consumer.log"]
    (tmp_path / "consumer.log.part").touch()
    mask_file(log)
    assert log.read_text() == f"token={MASK}\n"


def failing(*_: object) -> str:
    """Fail as a full disk does."""
    raise OSError(ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('./a --password "two words" b', './a --password "***" b'),
        ("./a --password 'two words' b", "./a --password '***' b"),
        (r'./a --password "two \"words\" x" b', './a --password "***" b'),
        (r"./a --password two\ words b", "./a --password *** b"),
        (
            r"""["--run", "./a --password \"two words\" b"]""",
            """["--run", "./a --password *** b"]""",
        ),
        (r'{"it": "token=\"two words\" b"}', '{"it": "token=*** b"}'),
    ],
)
def test_a_secret_may_hold_blanks(text: str, shown: str) -> None:
    """In the quotation marks of a shell, in those of JSON, or behind a backslash."""
    assert masked(text) == shown


@pytest.mark.parametrize(
    "written",
    [
        "--password 'hunter2'",
        "--password='hunter2'",
        "password='hunter2'",
        "--password 'two hunter2'",
        "--password 'it'\\''s-hunter2'",
        '--password "a"tail-hunter2',
        "--password 'a'\"'\"'s-hunter2'",
        "--password '''hunter2'''",
    ],
)
def test_a_secret_may_be_quoted_in_pieces(written: str) -> None:
    """As a shell reads it; also in a command that is quoted in another one, and in that again."""
    line = f"./a {written}"
    for _ in range(3):
        assert "hunter2" not in masked(line), line
        line = shlex.join(["lostack", "check", "--producer", line])


def test_what_stands_behind_a_quoted_secret_stays() -> None:
    """A list of words in JSON goes on behind the comma."""
    assert masked('a --password "two words", "x y"') == 'a --password "***", "x y"'


def test_an_apostrophe_hides_nothing_of_the_next_lines() -> None:
    assert masked("--password hunter2's\nit's\ndone") == "--password ***\nit's\ndone"


def test_a_command_line_to_paste_is_what_it_was(tmp_path: Path) -> None:
    """In an interactive shell, too, where ``!`` names a command of the past in double quotation
    marks; stars of the user's own stay stars.
    """
    words = [
        "./a!b --password hunter2",
        './a *** --token=t0k3n *** !! $HOME `x` \\\\ "it\'s"!',
        '--secret "two words"',
        "",
        "a\nb!c",
    ]
    line, names = with_variables(words)
    assert names == ["SECRET_1", "SECRET_2", "SECRET_3"]
    assert masked(line) == line  # it is printed by what masks all texts
    assert all(secret not in line for secret in ("hunter2", "t0k3n", "two words"))
    given = {"SECRET_1": "hunter2", "SECRET_2": "t0k3n", "SECRET_3": "two words"}
    out = tmp_path / "out"
    shell = subprocess.run(
        ["bash", "--norc", "--noprofile", "-i"],
        input=f"printf '%s\\0' {line} > {out}\n",
        text=True,
        env=given | {"PATH": os.environ["PATH"], "HISTFILE": ""},
        capture_output=True,
        check=False,
        start_new_session=True,
    )
    assert out.read_text().split("\0")[:-1] == words, shell.stderr
