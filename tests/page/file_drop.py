"""Drops a file on a page, or pastes one, with the events that a browser sends."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

_HELD = """async ([name, data]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const held = new DataTransfer();
    held.items.add(new File([bytes], name));
    return held;
}"""


def hold(page: Page, name: str, data: bytes) -> None:
    """Hold a file over the page; `let_go` drops it."""
    held = page.evaluate_handle(_HELD, [name, b64encode(data).decode()])
    page.evaluate("held => { window.held = held; }", held)
    page.dispatch_event("body", "dragenter", {"dataTransfer": held})
    page.dispatch_event("body", "dragover", {"dataTransfer": held})


def let_go(page: Page) -> None:
    page.evaluate(
        "document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: held, bubbles: true, cancelable: true }))"
    )


def drop(page: Page, name: str, data: bytes) -> None:
    hold(page, name, data)
    let_go(page)


def paste(page: Page, text: str) -> None:
    """Paste, with nothing that takes it but the page itself."""
    page.evaluate(
        """text => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )
