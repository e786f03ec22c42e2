"""`<think>` tags inside text, as local models and some hosts send their reasoning.

Only a tag at the very start of the text counts: later ones are the model talking about tags. Just as much is held back
as could still become a tag, and it is flushed at the end.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Piece: TypeAlias = tuple[Literal["text", "reasoning"], str]
OPEN = ("<think>", "<thinking>", "<reasoning>")
CLOSE = {tag: tag.replace("<", "</") for tag in OPEN}


class ThinkTags:
    """Splits one text into pieces of reasoning and text. `done` once there is nothing left to look for."""

    def __init__(self) -> None:
        self.done = False
        self.fresh = True  # nothing was read yet
        self._close = ""  # the tag that ends the reasoning, once one began it
        self._answering = False
        self._trim = False  # the line breaks beside a tag belong to the tag
        self._held = ""

    def feed(self, text: str) -> list[Piece]:
        """Take more text, give what is certain."""
        if self.done:
            return [("text", text)]
        self.fresh = False
        self._held += text
        return self._step()

    def finish(self) -> list[Piece]:
        """Give what was held back: an unfinished tag is just text."""
        held, self._held, self.done = self._held, "", True
        if not held:
            return []
        return [("reasoning" if self._close and not self._answering else "text", held)]

    def _step(self) -> list[Piece]:
        if self._trim:
            self._held = self._held.lstrip("\n")
            if not self._held:
                return []
            self._trim = False
        if self._answering:
            return self.finish()
        return self._inside() if self._close else self._match_open_tag()

    def _match_open_tag(self) -> list[Piece]:
        start = self._held.lstrip()
        for tag in OPEN:
            if start.startswith(tag):
                self._close, self._held, self._trim = CLOSE[tag], start[len(tag) :], True
                return self._step()
            if tag.startswith(start):
                return []
        return self.finish()

    def _inside(self) -> list[Piece]:
        before, found, after = self._held.partition(self._close)
        if found:
            self._answering, self._held, self._trim = True, after, True
            said: list[Piece] = [("reasoning", before)] if before else []
            return said + self._step()
        keep = overlap(self._held, self._close)
        said_now, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return [("reasoning", said_now)] if said_now else []


def overlap(text: str, *words: str) -> int:
    """Returns how many of the last characters could be the beginning of one of the words."""
    longest = min(max(map(len, words), default=1) - 1, len(text))
    sizes = range(longest, 0, -1)
    return next((size for size in sizes if any(len(w) > size and w.startswith(text[-size:]) for w in words)), 0)
