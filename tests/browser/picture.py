"""Take the README's picture of a saved run's page: ``python -m tests.browser.picture reports/latest
docs/report.png [CELL]``.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.latest import run_directory
from harness.model.waiting import wait_until
from tests.browser.chromium import chromium

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

WIDTH, TOP_HEIGHT, CELL_HEIGHT = 1240, 900, 1182


def main(directory: Path, picture: Path, cell: str) -> None:
    """Take the top of the page, or the top of one cell's page (``cell``: its folder's name)."""
    page = (run_directory(directory) / "report.html").resolve().as_uri()
    with chromium(WIDTH, 900) as driver:
        driver.get(f"{page}#cell={cell}" if cell else page)
        wait_until(lambda: _ready(driver, cell), within_s=30, because="the page is drawn")
        clip = {
            "x": 0,
            "y": 0,
            "width": WIDTH,
            "height": CELL_HEIGHT if cell else TOP_HEIGHT,
            "scale": 1,
        }
        shot = driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_bytes(base64.b64decode(shot["data"]))


def _ready(driver: Chrome, cell: str) -> bool:
    return bool(
        driver.execute_script(
            "return document.getElementById('cell').dataset.shown === arguments[0]", cell
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), (sys.argv[3:] or [""])[0])
