"""Finding a Chromium and its driver, and starting it headless. Nothing is ever
downloaded for it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = (
    "install Chromium and its driver (Debian: apt-get install chromium chromium-driver), or name "
    "them in LOSTACK_CHROMIUM and LOSTACK_CHROMEDRIVER"
)


@dataclass(frozen=True)
class Programs:
    """The two programs; a part is null where there is none."""

    browser: str | None
    driver: str | None

    @property
    def missing(self) -> str | None:
        """What is missing, in a few words, or ``None``."""
        lacking = [
            name
            for name, path in (("Chromium", self.browser), ("chromedriver", self.driver))
            if path is None
        ]
        return f"there is no {' and no '.join(lacking)} on this machine: {HOW}" if lacking else None


def programs() -> Programs:
    """Look for the browser and its driver: named in the environment, else on the path."""
    browser = os.environ.get("LOSTACK_CHROMIUM") or next(
        filter(None, map(shutil.which, BROWSERS)), None
    )
    return Programs(browser, os.environ.get("LOSTACK_CHROMEDRIVER") or shutil.which("chromedriver"))


@contextmanager
def chromium(width: int = 1280, height: int = 1000) -> Iterator[Chrome]:
    """Start a headless Chromium that logs its console and every request."""
    from selenium.webdriver import Chrome, ChromeOptions  # noqa: PLC0415 - only where there is a browser
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    found = programs()
    options = ChromeOptions()
    options.binary_location = found.browser or ""
    for argument in (
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--disable-background-networking",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument(
            "--no-sandbox"
        )  # Chromium's sandbox does not run as root, and the page is our own
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(
        ignore_cleanup_errors=True
    ) as folder:  # it leaves some of its own behind
        driver = Chrome(
            options=options, service=Service(found.driver, env={**os.environ, "TMPDIR": folder})
        )
        driver.set_page_load_timeout(60)
        try:
            yield driver
        finally:
            driver.quit()
