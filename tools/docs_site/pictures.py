"""`python -m tools.docs_site.pictures FOLDER`: pictures of build/site, on a desktop and a phone, light and dark.

The browser is the machine's Chromium. `--page` names other pages; `--full` takes the whole length of a page.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build/site"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PAGES = ("index.html", "client.html", "api/events.html", "configuration.html")
SIZES = {"desktop": (1400, 900), "phone": (390, 844)}


def take_pictures(folder: Path, pages: list[str], *, full: bool) -> None:
    """Writes NAME-SIZE-SCHEME.png for each page."""
    folder.mkdir(parents=True, exist_ok=True)
    program = next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme="light" if scheme == "light" else "dark",
                )
                view = context.new_page()
                for name in pages:
                    view.goto((SITE / name).as_uri())
                    view.wait_for_load_state("load")
                    file = f"{name.removesuffix('.html').replace('/', '-')}-{size}-{scheme}.png"
                    view.screenshot(path=folder / file, full_page=full)
                context.close()
        browser.close()


def main() -> None:
    """Reads the arguments and takes the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", action="append", help="such as client.html; may be repeated")
    parser.add_argument("--full", action="store_true", help="the whole page, not one screen")
    options = parser.parse_args()
    take_pictures(options.folder, options.page or list(PAGES), full=options.full)


if __name__ == "__main__":
    main()
