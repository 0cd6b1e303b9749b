"""What is written into a file of properties is what Java reads from it."""

from __future__ import annotations

import pytest

from harness.provision.properties import properties_file


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a", "C:\\b\nc", "a=C:\\\\b\\nc"),
        # Java reads Latin-1, leaves out blanks in front, and ends a name at the first of " :="
        ("a:b", " c", "a\\:b=\\ c"),
        ("d", "jürgen 🙂", "d=j\\u00fcrgen \\ud83d\\ude42"),
        ("d", "\fx ", "d=\\fx "),
        # a line that begins with one of these is a comment
        ("#a", "!", "\\#a=!"),
        ("!a", "#", "\\!a=#"),
    ],
)
def test_a_path_or_text_is_a_property_as_it_is(name: str, text: str, line: str) -> None:
    assert properties_file({name: text}) == f"{line}\n"
