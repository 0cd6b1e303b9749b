"""What is read of an output at rest, whatever files lie there and whatever bytes are in them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.pipelines.outputs import Output, OutputKind
from harness.systems.declared import outputs
from harness.systems.declared.outputs import Lines, OutputError, results_of

if TYPE_CHECKING:
    from harness.systems.declared.outputs import Results


def lines_in(folder: Path, pattern: str) -> Results:
    """Return the reader of the lines of files below a folder."""
    output = Output(kind=OutputKind.LINES, file=pattern)
    return results_of(output, {"work": folder}, folder, folder / "log")


@pytest.mark.parametrize(("hard", "times"), [(False, 1), (True, 2)])
def test_a_link_is_no_second_copy_but_a_second_name_is(
    tmp_path: Path, hard: bool, times: int
) -> None:
    """A link to the newest part shows what is read anyway; a batch that is published again by a
    name of its own is there twice, for whoever reads the folder.
    """
    (tmp_path / "o.1.jsonl").write_text("order-1\norder-2\n")
    link = tmp_path / "current.jsonl"
    link.hardlink_to(tmp_path / "o.1.jsonl") if hard else link.symlink_to("o.1.jsonl")
    assert lines_in(tmp_path, "{work}/*.jsonl").rows() == ["order-1", "order-2"] * times


def test_a_folder_of_two_names_is_read_once(tmp_path: Path) -> None:
    """The same, with a link to the newest folder."""
    (tmp_path / "run1").mkdir()
    (tmp_path / "run1" / "o.jsonl").write_text("order-1\n")
    (tmp_path / "latest").symlink_to("run1")
    assert lines_in(tmp_path, "{work}/**/*.jsonl").rows() == ["order-1"]


NOTES = '{"id": "order-1", "note": "\u2028"}\n{"id": "order-2", "note": "\x85-\x0b-\x0c"}\r\n\nx'
"""Lines with what is no end of a line, an empty line, and a last one without an end."""


def printed(folder: Path, *command: str) -> Results:
    """Return the reader of what a command prints."""
    return results_of(Output(kind=OutputKind.COMMAND, command=command), {}, folder, folder / "log")


@pytest.mark.parametrize("of", ["lines", "command"])
def test_a_line_ends_where_a_writer_of_lines_ends_it(tmp_path: Path, of: str) -> None:
    """JSON may hold separators that only Python's own splitting takes for ends."""
    (tmp_path / "o.jsonl").write_bytes(NOTES.encode())
    read = lines_in(tmp_path, "o.jsonl") if of == "lines" else printed(tmp_path, "cat", "o.jsonl")
    first, second, *others = NOTES.split("\n")
    assert read.rows() == [first, second.removesuffix("\r"), *others]
    (tmp_path / "o.jsonl").write_bytes(b"")
    assert read.rows() == []


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    """JSON with the mark is no JSON, so the first record of each file would be lost."""
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"id": 1}\n{"id": 2}\n', encoding="utf-8-sig")
    assert lines_in(tmp_path, "*.jsonl").rows() == ['{"id": 1}', '{"id": 2}'] * 2
    assert printed(tmp_path, "cat", "a.jsonl").rows() == ['{"id": 1}', '{"id": 2}']


@pytest.mark.parametrize(
    ("file", "read"),
    [
        ("{work}/o.[0-9].jsonl", ["order-1"]),
        ("*.jsonl", ["order-1", "order-2"]),
        ("{work}/../**/o.1.*", ["order-1"]),
    ],
)
def test_only_the_declared_file_has_wildcards(tmp_path: Path, file: str, read: list[str]) -> None:
    """The folders that it lies in have names of their own."""
    folder = tmp_path / "shop [new]"
    folder.mkdir()
    (folder / "o.1.jsonl").write_text("order-1\n")
    (folder / "o.x.jsonl").write_text("order-2\n")
    assert lines_in(folder, file).rows() == read


def test_a_file_that_is_renamed_while_it_is_read_is_read_by_its_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which files there are and what is in them is not seen at one moment."""
    (tmp_path / "o.tmp.jsonl").write_text("order-1\n")
    read = Path.read_bytes

    def renamed(file: Path) -> bytes:
        if file.name == "o.tmp.jsonl":
            file.rename(tmp_path / "o.1.jsonl")
        return read(file)

    monkeypatch.setattr(Path, "read_bytes", renamed)
    assert lines_in(tmp_path, "*.jsonl").rows() == ["order-1"]


@pytest.mark.parametrize(("call", "ask"), [("read_bytes", "rows"), ("stat", "size")])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ENOENT])
def test_a_file_that_cannot_be_read_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str, ask: str
) -> None:
    """One that is gone has no size; one that is gone whenever it is read cannot be read."""
    file = tmp_path / "o.jsonl"
    file.write_text("order-1\n")

    def failing(_: Path) -> None:
        raise OSError(number, os.strerror(number))

    read = lines_in(tmp_path, "*.jsonl")
    monkeypatch.setattr(Path, call, failing)
    if ask == "size" and number == errno.ENOENT:
        assert read.size() == ()
        return
    gone = number == errno.ENOENT
    said = f"{tmp_path}/.*: while .* removed" if gone else f"{file}: {os.strerror(number)}; lostack"
    with pytest.raises(OutputError, match=f"cannot read {said}"):
        getattr(read, ask)()


@pytest.mark.parametrize("folder", ["shop", "shop [new]"])
def test_an_output_that_no_file_matches_is_told_with_what_is_there(
    tmp_path: Path, folder: str
) -> None:
    """A name that was mistyped is seen beside the right one."""
    work = tmp_path / folder
    read = lines_in(work, "{work}/outt*.jsonl")
    assert isinstance(read, Lines)
    assert read.why_empty() == f"no file matches {work}/outt*.jsonl"
    work.mkdir()
    for name in "edcba":
        (work / f"{name}.jsonl").write_text("")
    assert read.why_empty() == (
        f"no file matches {work}/outt*.jsonl; its folder has 'a.jsonl', 'b.jsonl', 'c.jsonl', …"
    )
    (work / "outt1.jsonl").write_text("")
    assert read.why_empty() == "it is empty"


def test_a_command_that_does_not_end_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did run; and its words may hold what is long or secret."""
    monkeypatch.setattr(outputs, "COMMAND_S", 0.2)
    with pytest.raises(OutputError, match=r"^the output's command 'sleep' did not end in 0\.2 s$"):
        printed(tmp_path, "sleep", "60").rows()


def test_a_command_that_reads_its_input_finds_none(tmp_path: Path) -> None:
    """It would wait for what somebody types, or take what is meant for lostack."""
    read, write = os.pipe()
    os.write(write, b"order-1\n")
    before = os.dup(0)
    os.dup2(read, 0)
    try:
        assert printed(tmp_path, "head", "-n", "1").rows() == []
    finally:
        os.dup2(before, 0)
        for each in (read, write, before):
            os.close(each)
