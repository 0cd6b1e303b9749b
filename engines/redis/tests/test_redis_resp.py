"""RESP: whatever is cut anywhere is read as it was made, and nothing makes the reader fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lostack_redis.resp import (
    MOST_DEEP,
    NotRespError,
    Reader,
    Refusal,
    ShortError,
    Value,
    command,
    values,
    words,
)

WORDS = st.lists(st.binary(max_size=40), min_size=1, max_size=6)
VALUES = st.recursive(
    st.none()
    | st.integers(-(1 << 40), 1 << 40)
    | st.binary(max_size=20)
    | st.builds(Refusal, st.from_regex(rb"[A-Z]{1,8}( [a-z ]{0,9})?", fullmatch=True)),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


def made(value: Value, *, version: int = 2) -> bytes:
    """Make the bytes of a value, as a server does."""
    if value is None:
        return b"_\r\n" if version == 3 else b"$-1\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, Refusal):
        return b"-%s\r\n" % value.text
    if isinstance(value, bytes):
        return b"$%d\r\n%s\r\n" % (len(value), value)
    if version == 3 and len(value) % 2 == 0:
        pairs = b"".join(made(each, version=3) for each in value)
        return b"%%%d\r\n%s" % (len(value) // 2, pairs)
    return b"*%d\r\n%s" % (len(value), b"".join(made(each, version=version) for each in value))


@given(WORDS)
def test_a_command_is_read_as_it_was_made(said: list[bytes]) -> None:
    [(at, end, value)] = values(command(*said))
    assert (at, end, words(value)) == (0, len(command(*said)), tuple(said))


@given(VALUES, st.sampled_from([2, 3]))
def test_a_value_is_read_as_it_was_made(value: Value, version: int) -> None:
    """In both versions; a map is its keys and values in turn."""
    data = made(value, version=version)
    reader = Reader(data + b"+more\r\n")
    assert reader.value() == value
    assert reader.at == len(data)


@given(VALUES, st.sampled_from([2, 3]))
def test_cut_anywhere_more_is_asked_for(value: Value, version: int) -> None:
    """Never more than there is."""
    data = made(value, version=version)
    for end in range(len(data)):
        with pytest.raises(ShortError) as short:
            Reader(data[:end]).value()
        assert end < short.value.need <= len(data)


@given(st.binary(max_size=60))
def test_garbage_is_refused_or_read(data: bytes) -> None:
    """And raises nothing else."""
    try:
        Reader(data).value()
    except (NotRespError, ShortError):
        return


@pytest.mark.parametrize(
    "data",
    [
        b"PING\r\n",
        b"*x\r\n",
        b"*-2\r\n",
        b"$3\r\nabcd\r\n",
        b"*1\r\n" * (MOST_DEEP + 2) + b":1\r\n",
        b":\r\n",
        b"$99999999999999999999\r\n",
        b"+" + bytes(1 << 16),
    ],
)
def test_what_is_no_value_is_said(data: bytes) -> None:
    with pytest.raises(NotRespError) as error:
        Reader(data).value()
    assert "\n" not in str(error.value)


def test_types_of_version_3() -> None:
    """Each as what it stands for; an attribute is passed over."""
    data = (
        b"*6\r\n#t\r\n,1.5\r\n(12\r\n=5\r\ntxt:a\r\n!5\r\nERR x\r\n|1\r\n+k\r\n:1\r\n>1\r\n+p\r\n"
    )
    assert Reader(data).value() == [b"t", b"1.5", b"12", b"txt:a", Refusal(b"ERR x"), [b"p"]]
    assert Refusal(b"WRONGTYPE no").name == "WRONGTYPE"


def test_the_beginning_of_a_large_command_tells_its_size() -> None:
    head = b"*3\r\n$5\r\nLPUSH\r\n$1\r\nq\r\n$1000000\r\n"
    with pytest.raises(ShortError) as short:
        Reader(head + b"x").value()
    assert (short.value.need, short.value.whole) == (len(head) + 1_000_002, True)
    with pytest.raises(ShortError) as short:
        Reader(b"*3\r\n$5\r\nLPUSH\r\n$1000000\r\nq").value()
    assert not short.value.whole
