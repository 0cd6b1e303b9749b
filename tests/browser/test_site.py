"""The site's search works for a page that was opened from a disk, and nothing is fetched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.model.waiting import wait_until
from tests.browser.chromium import chromium
from tests.docs import site

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.browser
FOUND = "return [...document.querySelectorAll('.md-search-result__link')].map((each) => each.href)"


def test_what_is_searched_is_found_from_a_disk(tmp_path: Path) -> None:
    site.main(tmp_path)
    with chromium() as browser:
        browser.get((tmp_path / "index.html").as_uri())
        box = browser.find_element("css selector", "input[name=query]")
        box.click()
        box.send_keys("KAFKA-19479")
        wait_until(
            lambda: any("published-bugs.html" in each for each in browser.execute_script(FOUND)),
            within_s=30,
            because="the search has found the page",
        )
        asked = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]  # type: ignore[no-untyped-call]
    addresses = {
        each["params"]["request"]["url"]
        for each in asked
        if each["method"] == "Network.requestWillBeSent"
    }
    assert addresses
    assert [each for each in addresses if not each.startswith(("file:", "data:", "blob:"))] == []
