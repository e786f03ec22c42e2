"""What the encoder remembers of one candidate: its text, its sources, and who is speaking.

Sources become grounding metadata, from code points of a part to bytes of the answer: the other side of `spans`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocols.gemini.own import said

if TYPE_CHECKING:
    from penstock.events import Source


class Slot:
    """An open part: its candidate, and what it has gathered if it leaves whole or has to wait."""

    __slots__ = ("candidate", "choice", "data", "done", "held", "media", "url")

    def __init__(self, choice: int, candidate: Candidate, media: str = "", url: str = "") -> None:
        self.choice = choice
        self.candidate = candidate
        self.media = media
        self.url = url
        self.data: list[str] = []
        self.held: list[bytes] | None = None  # parts that wait, while another part of the candidate is speaking
        self.done = False


class Candidate:
    """Text is kept, because bytes are counted when all is said."""

    __slots__ = ("_sources", "parts", "pieces", "refused")

    def __init__(self) -> None:
        self.parts: set[int] = set()  # those that are text
        self.pieces: list[tuple[int, str]] = []  # part, text: one entry for each delta
        self.refused = False
        self._sources: list[Source] = []

    def add(self, source: Source) -> None:
        self._sources.append(source)

    @property
    def moved(self) -> bool:
        """A source is not where it was: texts that touch are one here, and only text can be cited."""
        return any(source.of is not None and self.parts != {source.of} for source in self._sources)

    def metadata(self) -> dict[str, Any] | None:
        """Each source once as a chunk; a support for every stretch of text that rests on one."""
        if not self._sources:
            return None
        numbers: dict[tuple[str, str, str], int] = {}
        supports: dict[tuple[int, int], dict[str, Any]] = {}
        for source in self._sources:
            key = (source.url, source.title, "" if source.url else source.quote)
            number = numbers.setdefault(key, len(numbers))
            self._support(supports, source, number)
        made: dict[str, Any] = {"groundingChunks": [_chunk(*key) for key in numbers]}
        if supports:
            made["groundingSupports"] = list(supports.values())
        return made

    def _support(self, supports: dict[tuple[int, int], dict[str, Any]], source: Source, number: int) -> None:
        if source.of is None:
            return
        before = "".join(text for part, text in self.pieces if part < source.of)
        text = "".join(text for part, text in self.pieces if part == source.of)
        first, last = source.span or (0, len(text))
        start, cited = len((before + text[:first]).encode()), text[first:last]
        if not cited:
            return
        segment = {"startIndex": start, "endIndex": start + len(cited.encode()), "text": cited}
        support = supports.setdefault((start, len(cited)), {"segment": segment, "groundingChunkIndices": []})
        if number not in support["groundingChunkIndices"]:
            support["groundingChunkIndices"].append(number)


def _chunk(url: str, title: str, quote: str) -> dict[str, Any]:
    if url:
        return {"web": said(uri=url, title=title or None)}
    return {"retrievedContext": said(title=title or None, text=quote or None)}
