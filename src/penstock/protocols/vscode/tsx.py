"""The prompt-tsx trees that VS Code's own tools answer with: their text and pictures, in order.

A tree is `{"node": …}`; a node of type 2 is a piece of text, one of type 1 has children. Which of them matter when
space is short is the renderer's business: here everything is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import pick
from penstock import request as rq
from penstock.media import of_url, sniff

if TYPE_CHECKING:
    from penstock.pick import Object

PIECE, TEXT = 1, 2
PICTURE = 3  # the kind of piece that is an image
DEPTH = 200  # deeper trees are cut: nobody's tool answers with one


def is_tree(value: Any) -> bool:
    """Whether a value is such a tree."""
    return pick.table(pick.as_object(value), "node").get("type") in (PIECE, TEXT)


def parts_of(value: Any) -> list[rq.Text | rq.File]:
    """What a tree says."""
    made: list[rq.Text | rq.File] = []
    _walk(pick.table(pick.as_object(value), "node"), made, 0)
    return made or [rq.Text("")]


def _walk(node: Object, made: list[rq.Text | rq.File], depth: int) -> None:
    if node.get("type") == TEXT:
        _say(node, made)
    elif node.get("ctor") == PICTURE:
        source = pick.text(pick.table(node, "props"), "src")
        _, url, data = of_url(source, "") if ":" in source[:64] else ("", "", source)
        if source:
            made.append(rq.File(sniff(data) or "image/*", url, data))
    elif depth < DEPTH:
        for child in pick.rows(node, "children"):
            _walk(child, made, depth + 1)


def _say(node: Object, made: list[rq.Text | rq.File]) -> None:
    text, last = pick.text(node, "text"), made[-1] if made else None
    if type(last) is rq.Text:
        last.text += "\n" + text if node.get("lineBreakBefore") else text
    else:
        made.append(rq.Text(text))
