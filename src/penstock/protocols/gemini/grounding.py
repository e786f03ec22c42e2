"""What an answer rests on: grounding chunks and supports, citations, pages that were read.

The metadata comes with the last chunks, sometimes twice; it is held until the text it speaks of ends, told once, and
kept whole for the finish, from which the same protocol restores it. A search that left traces is told as a tool that
the provider ran, once, unless the stream told of it already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocols.gemini import wire
from penstock.protocols.gemini.own import own, shaped
from penstock.protocols.gemini.spans import NOWHERE, Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.parts import Ledger, Part
    from penstock.protocols.gemini.calls import Calls
    from penstock.protocols.gemini.spans import Place

_READ = "URL_RETRIEVAL_STATUS_SUCCESS"
_NOBODY = wire.Origin()


class Grounding:
    """The metadata of one choice. `notes` holds it as it was sent."""

    def __init__(self, ledger: Ledger, choice: int) -> None:
        self._ledger = ledger
        self._choice = choice
        self.notes: dict[str, Any] = {}

    def note(self, said: wire.Candidate) -> None:
        for key, value in (
            ("citationMetadata", said.citation_metadata),
            ("groundingMetadata", said.grounding_metadata),
            ("urlContextMetadata", said.url_context_metadata),
        ):
            if value:
                self.notes[key] = _joined(self.notes.get(key) or {}, value)

    # ── sources ───────────────────────────────────────────────────────────────────────────────────

    def cite(self, parts: Sequence[Part], *, last: bool = False) -> None:
        """Tell the sources of the text so far, once each; those that have no place in it wait until the last."""
        if self.notes:
            answer = Answer(parts)
            self._citations(answer, last=last)
            self._grounding(answer, last=last)

    def _citations(self, answer: Answer, *, last: bool) -> None:
        raw: dict[str, Any] = self.notes.get("citationMetadata") or {}
        said: wire.CitationMetadata = shaped(raw, wire.CitationMetadata)
        for one in (*(said.citations or ()), *(said.citation_sources or ())):
            place = answer.place(one.start_index, one.end_index)
            if (one.uri or one.title) and (last or place != NOWHERE):
                self._tell(one.uri, one.title, place)

    def _grounding(self, answer: Answer, *, last: bool) -> None:
        """Each chunk where it is used, or once without a place; in the order of the chunks."""
        raw: dict[str, Any] = self.notes.get("groundingMetadata") or {}
        said: wire.GroundingMetadata = shaped(raw, wire.GroundingMetadata)
        places: dict[int, list[Place]] = {}
        for support in said.grounding_supports or ():
            segment = support.segment or wire.Segment()
            place = answer.place(segment.start_index, segment.end_index, segment.text or "")
            for number in support.grounding_chunk_indices or ():
                places.setdefault(number, []).append(place)
        for number, chunk in enumerate(said.grounding_chunks or ()):
            origins = (chunk.web, chunk.retrieved_context, chunk.maps, chunk.image)
            origin = next((one for one in origins if one is not None and one != _NOBODY), _NOBODY)
            for place in places.get(number) or (NOWHERE,):
                if not last and place == NOWHERE:
                    continue
                self._tell(origin.uri or origin.source_uri, origin.title, place, origin, number)

    def _tell(
        self, url: str | None, title: str | None, place: Place, origin: wire.Origin = _NOBODY, number: int | None = None
    ) -> None:
        document, quote = origin.document_name or origin.place_id or "", origin.text or ""
        of, span = place
        extra = own(groundingChunk=number)
        citation = (self._choice, url or quote, title or "", place)
        self._ledger.cite(citation, url or "", title or "", of, span, quote, document, "", "", extra)

    # ── tools that left traces ────────────────────────────────────────────────────────────────────

    def tools(self, calls: Calls) -> None:
        raw: dict[str, Any] = self.notes.get("groundingMetadata") or {}
        said: wire.GroundingMetadata = shaped(raw, wire.GroundingMetadata)
        found: Any = raw.get("groundingChunks") or []
        for name, asked in (
            ("google_search", said.web_search_queries),
            ("google_image_search", said.image_search_queries),
            ("retrieval", said.retrieval_queries),
        ):
            queries = [query for query in asked or () if query]
            if queries:
                calls.note(name, {"queries": queries}, found)
        self._pages(calls)

    def _pages(self, calls: Calls) -> None:
        raw: dict[str, Any] = self.notes.get("urlContextMetadata") or {}
        said: wire.UrlContextMetadata = shaped(raw, wire.UrlContextMetadata)
        pages = said.url_metadata or ()
        if pages:
            failed = all(page.url_retrieval_status != _READ for page in pages)
            calls.note("url_context", {"urls": [page.retrieved_url for page in pages]}, raw["urlMetadata"], failed)


def _joined(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Citations come a few with every chunk and add up; anything else is said anew."""
    both = {**before, **more}
    for key in ("citations", "citationSources"):
        old: Any = before.get(key)
        new: Any = more.get(key)
        if isinstance(old, list) and isinstance(new, list):
            both[key] = [*old, *(one for one in new if one not in old)]  # pyright: ignore[reportUnknownVariableType]
    return both
