"""A headless Chromium for tests of pages, installed by `.ci/browser`.

`SKILLRUN_TEST_BROWSER` names a different browser. Without one the tests are skipped, or fail with
`SKILLRUN_TEST_BROWSER_REQUIRED=1`, as in CI. `SKILLRUN_TEST_SCREENSHOTS` names a folder that keeps the screenshots.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

# Read on import: the environment of a test does not have these variables.
NAMED: Final = os.environ.get("SKILLRUN_TEST_BROWSER")
IS_REQUIRED: Final = os.environ.get("SKILLRUN_TEST_BROWSER_REQUIRED", "") not in ("", "0")
PICTURES: Final = os.environ.get("SKILLRUN_TEST_SCREENSHOTS")
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATH: Final = NAMED or next(filter(None, map(shutil.which, NAMES)), None)
PATIENCE: Final = 180_000  # milliseconds: a machine may be busy
MISSING: Final = (
    "Chromium is not installed: run `.ci/browser` (on Debian `apt-get install chromium`), or set "
    "SKILLRUN_TEST_BROWSER to the path of a browser"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser, shared by a module only: while it is open, no other test can run an event loop."""
    if PATH is None:
        (pytest.fail if IS_REQUIRED else pytest.skip)(MISSING)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=PATH, args=["--disable-dev-shm-usage"], timeout=PATIENCE)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the screenshots."""
    folder = Path(PICTURES) if PICTURES else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
