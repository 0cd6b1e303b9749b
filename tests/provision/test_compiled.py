"""Java sources of ours become a jar of the cache, once, or one clear line."""

from __future__ import annotations

import subprocess
import zipfile
from typing import TYPE_CHECKING

import pytest

from harness.model.failures import EnvironmentFailure
from harness.provision.cache import VARIABLE, cache_root
from harness.provision.compiled import compiled
from harness.provision.java import find_java

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.rest(together=True)
"""The compiler is fetched, and run six times."""

SOURCE = """
import java.util.List;
import java.util.function.Function;
/** What Janino refuses: a lambda, a generic interface, a record. */
public class Modern {
    interface Step<A, B> extends Function<A, List<B>> {}
    record Pair(String left, int right) {}
    public static void main(String[] words) {
        Step<String, Pair> step = word -> List.of(new Pair(word, word.length()));
        System.out.println(step.apply("café"));
    }
}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give this test a cache of its own, with the jars of the real one."""
    real = cache_root() / "jars"
    real.mkdir(exist_ok=True)
    own = tmp_path / "cache"
    own.mkdir()
    (own / "jars").symlink_to(real)
    monkeypatch.setenv(VARIABLE, str(own))
    return own


def written(folder: Path, text: str) -> Path:
    """Write the source."""
    source = folder / "Modern.java"
    source.write_text(text)
    return source


def test_a_source_becomes_a_jar_that_runs_and_is_made_once(tmp_path: Path, cache: Path) -> None:
    """A lambda, a record and a letter beyond ASCII come through; a second call compiles nothing;
    another text is another jar.
    """
    source = written(tmp_path, SOURCE)
    jar = compiled("modern", [source], [], print)
    java = str(find_java(cache_root(), print).path)
    command: list[str | Path] = [java, "-Dfile.encoding=UTF-8", "-cp", jar, "Modern"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert ran.stdout == "[Pair[left=café, right=4]]\n"
    made = jar.stat().st_mtime_ns
    assert (compiled("modern", [source], [], print), jar.stat().st_mtime_ns) == (jar, made)
    other = compiled("modern", [written(tmp_path, SOURCE.replace("word.length()", "1"))], [], print)
    assert other != jar
    assert {file.parent.name for file in cache.glob("compiled/*/modern.jar")} == {
        jar.parent.name,
        other.parent.name,
    }


def test_what_it_is_compiled_against_is_found_and_names_it(tmp_path: Path, cache: Path) -> None:
    """A class of another jar is found; that jar's size is part of the name."""
    base = compiled("modern", [written(tmp_path, SOURCE)], [], print)
    user = tmp_path / "User.java"
    user.write_text("class User { Modern held; }")
    jar = compiled("user", [user], [base], print)
    assert zipfile.ZipFile(jar).namelist() == ["User.class"]
    with zipfile.ZipFile(base, "a") as more:
        more.writestr("more", "text")
    assert compiled("user", [user], [base], print) != jar


def test_the_first_error_is_one_line_and_nothing_is_left(tmp_path: Path, cache: Path) -> None:
    """It names file, line and what is wrong; no half-made folder stays."""
    wrong = written(tmp_path, SOURCE.replace("Step<String, Pair> step", "int step"))
    with pytest.raises(
        EnvironmentFailure,
        match=r"^modern does not compile: Modern\.java, line 9: [^\n]+ functional interface$",
    ):
        compiled("modern", [wrong], [], print)
    assert [file for file in (cache / "compiled").iterdir() if file.is_dir()] == []
