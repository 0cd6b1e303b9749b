"""The site has every page, a search, and no link that leads nowhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from mkdocs.exceptions import Abort

from tests.docs import site
from tests.docs.pages import ROOT, pages

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site of the repository."""
    to = tmp_path_factory.mktemp("site")
    site.main(to)
    return to


@pytest.mark.rest(together=True)
def test_every_page_is_there_and_can_be_searched(built: Path) -> None:
    """README is the first one, under the name that a server looks for."""
    names = [
        page.relative_to(ROOT).with_suffix(".html").as_posix().replace("README.html", "index.html")
        for page in pages()
    ]
    assert [name for name in names if not (built / name).is_file()] == []
    index = json.loads((built / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert [name for name in names if name not in found and name != "index.html"] == []


@pytest.mark.rest(together=True)
def test_its_first_page_has_the_moving_picture(built: Path) -> None:
    assert 'src="docs/demo.svg"' in (built / "index.html").read_text(encoding="utf-8")
    assert (built / "docs" / "demo.svg").read_bytes() == (ROOT / "docs" / "demo.svg").read_bytes()


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("# One\n\n[two](two.md#a-heading)\n", True),
        ("# One\n\n[two](two.md#no-heading)\n", False),
        ("# One\n\n[two](gone.md)\n", False),
        ("# One\n\n![picture](gone.svg)\n", False),
    ],
)
def test_a_link_that_leads_nowhere_stops_it(text: str, *, whole: bool, tmp_path: Path) -> None:
    source = tmp_path / "pages"
    source.mkdir()
    (source / "README.md").write_text(text, encoding="utf-8")
    (source / "two.md").write_text("# Two\n\n## A heading\n", encoding="utf-8")
    settings = tmp_path / "mkdocs.yml"
    settings.write_text(
        f"INHERIT: {site.SETTINGS}\nnav: [README.md, two.md]\nnot_in_nav: ''\n"
        "extra: {polyfills: []}\n",
        encoding="utf-8",
    )
    if whole:
        site.build(source, tmp_path / "site", settings)
        assert (tmp_path / "site" / "two.html").is_file()
    else:
        with pytest.raises(Abort):
            site.build(source, tmp_path / "site", settings)
