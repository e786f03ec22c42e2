"""What the page has kept of a tab in the browser's database (web/src/ui/tabStore.ts)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

# The page makes the database. Somebody else who opens it first would make an empty one of the same version, in which the
# page then finds no table: what is about to be made here is given up. A connection that stays open would hold up others.
_HAS = """() => new Promise((resolve) => {
    const opening = indexedDB.open("penstock-inspector");
    opening.onupgradeneeded = () => opening.transaction.abort();
    opening.onerror = () => resolve(false);
    opening.onsuccess = () => {
        const database = opening.result;
        const asked = database.transaction("tabs").objectStore("tabs").getAll();
        asked.onsuccess = () => resolve(asked.result.some(({ value }) => TEST));
        asked.onerror = () => resolve(false);
        asked.transaction.oncomplete = () => database.close();
    };
})"""


def wait_until_stored(page: Page, test: str) -> None:
    """Wait until the browser has stored a `value` for which `test`, an expression of JavaScript, holds."""
    page.wait_for_function(_HAS.replace("TEST", test))
