"""A headless Chromium for the tests that look at pages: the machine's own, which `.ci/browser` installs.

`SKILLRUN_TEST_BROWSER` names another. Where there is none the tests are skipped, or fail with
`SKILLRUN_TEST_BROWSER_REQUIRED=1`, as in CI. Pictures are kept in the folder `SKILLRUN_TEST_SCREENSHOTS`, where it is
set.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, sync_playwright

# A test has an environment of its own, without these.
NAMED: Final = os.environ.get("SKILLRUN_TEST_BROWSER")
IS_REQUIRED: Final = os.environ.get("SKILLRUN_TEST_BROWSER_REQUIRED", "") not in ("", "0")
PICTURES: Final = os.environ.get("SKILLRUN_TEST_SCREENSHOTS")
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATH: Final = NAMED or next(filter(None, map(shutil.which, NAMES)), None)
PATIENCE: Final = 180_000  # milliseconds: a machine may be busy
MISSING: Final = (
    "there is no Chromium on this machine: `.ci/browser` installs it (on Debian `apt-get install chromium`), and "
    "SKILLRUN_TEST_BROWSER names one that stands elsewhere"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser, which the tests of a module share: while it is there no other test could run a loop."""
    if PATH is None:
        (pytest.fail if IS_REQUIRED else pytest.skip)(MISSING)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=PATH, args=["--disable-dev-shm-usage"], timeout=PATIENCE)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which pictures are kept."""
    folder = Path(PICTURES) if PICTURES else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
