"""What the encoder remembers of one candidate: its text, its sources, and who is speaking.

Sources become grounding metadata, from code points of a part to bytes of the answer: the other side of `spans`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.protocols.gemini.own import said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.events import Source

Cited: TypeAlias = dict[tuple[int, int, int], dict[int, None]]  # a part and a stretch of it → the numbers of sources


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

    __slots__ = ("_sources", "parts", "pieces", "queries", "refused")

    def __init__(self) -> None:
        self.parts: set[int] = set()  # those that are text
        self.pieces: list[tuple[int, str]] = []  # part, text: one entry for each delta
        self.queries: list[str] = []  # of searches that another provider made
        self.refused = False
        self._sources: list[Source] = []

    def add_text(self, part: int, text: str) -> None:
        """More of a text."""
        self.pieces.append((part, text))

    def add(self, source: Source) -> None:
        self._sources.append(source)

    @property
    def moved(self) -> bool:
        """A source is not where it was: texts that touch are one here, and only text can be cited."""
        return any(source.of is not None and self.parts != {source.of} for source in self._sources)

    def metadata(self) -> dict[str, Any] | None:
        """Each source once as a chunk; a support for every stretch of text that rests on one."""
        searched = {"webSearchQueries": self.queries} if self.queries else {}
        if not self._sources:
            return searched or None
        numbers: dict[tuple[str, str, str], int] = {}
        cited: Cited = {}
        texts = self._texts()
        for source in self._sources:
            key = (source.url, source.title, "" if source.url else source.quote)
            number = numbers.setdefault(key, len(numbers))
            if source.of is not None:
                stretch = range(len(texts.get(source.of, "")))[slice(*(source.span or (0, None)))]
                if stretch:
                    cited.setdefault((source.of, stretch.start, stretch.stop), {})[number] = None
        made: dict[str, Any] = {**searched, "groundingChunks": [_chunk(*key) for key in numbers]}
        supports = list(_supports(texts, cited))
        if supports:
            made["groundingSupports"] = supports
        return made

    def _texts(self) -> dict[int, str]:
        """The text of every part."""
        pieces: dict[int, list[str]] = {}
        for part, text in self.pieces:
            pieces.setdefault(part, []).append(text)
        return {part: "".join(pieces[part]) for part in sorted(pieces)}


def _supports(texts: dict[int, str], cited: Cited) -> Iterator[dict[str, Any]]:
    """A support for every stretch that is cited. Its place is counted in bytes of the whole answer."""
    before: dict[int, int] = {}
    total = 0
    for part, text in texts.items():
        before[part] = total
        total += len(text.encode())
    wanted: dict[int, set[int]] = {}
    for part, first, last in cited:
        wanted.setdefault(part, set()).update((first, last))
    places = {part: _byte_places(texts[part], found) for part, found in wanted.items()}
    for (part, first, last), numbers in cited.items():
        start, end = (before[part] + places[part][place] for place in (first, last))
        segment = {"startIndex": start, "endIndex": end, "text": texts[part][first:last]}
        yield {"segment": segment, "groundingChunkIndices": list(numbers)}


def _byte_places(text: str, places: set[int]) -> dict[int, int]:
    """Places in a text, from characters to bytes of UTF-8. The text is gone through once for all of them."""
    made: dict[int, int] = {}
    at = size = 0
    for place in sorted(places):
        size += len(text[at:place].encode())
        made[place], at = size, place
    return made


def _chunk(url: str, title: str, quote: str) -> dict[str, Any]:
    if url:
        return {"web": said(uri=url, title=title or None)}
    return {"retrievedContext": said(title=title or None, text=quote or None)}
