"""Why an answer ended, what it cost and what went wrong: Gemini's words and numbers in ours."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.faults import SPENT, classify, is_daily_quota
from penstock.protocols.gemini import wire
from penstock.protocols.gemini.wire import NAME, own, shaped
from penstock.protocols.gemini.wire import said as told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.events import Reason
    from penstock.ledger import Ledger, Part
    from penstock.protocols.gemini.decode_calls import Calls

REASONS: dict[str, Reason] = {
    "STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "pause",
    "SAFETY": "filter", "RECITATION": "filter", "BLOCKLIST": "filter", "PROHIBITED_CONTENT": "filter", "SPII": "filter",
    "MODEL_ARMOR": "filter", "IMAGE_SAFETY": "filter", "IMAGE_PROHIBITED_CONTENT": "filter",
    "IMAGE_RECITATION": "filter",
    # the model failed to answer: no filter, and not what was asked for either
    "OTHER": "other", "LANGUAGE": "other", "NO_IMAGE": "other", "IMAGE_OTHER": "other",
    "MALFORMED_FUNCTION_CALL": "other", "UNEXPECTED_TOOL_CALL": "other", "TOO_MANY_TOOL_CALLS": "other",
    "MISSING_THOUGHT_SIGNATURE": "other", "MALFORMED_RESPONSE": "other",
}  # fmt: skip
# Enums as numbers, where protobuf was written without their names. Vertex numbers differently from 6 on.
NUMBERS = (
    "", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
    "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY",
)  # fmt: skip
RATINGS: dict[str, dict[int, str]] = {  # what a safety rating says, as numbers
    "category": {
        # Vertex counts from 1, the Gemini API from 7: below, it has the categories of PaLM alone.
        1: "HARM_CATEGORY_HATE_SPEECH", 2: "HARM_CATEGORY_DANGEROUS_CONTENT", 3: "HARM_CATEGORY_HARASSMENT",
        4: "HARM_CATEGORY_SEXUALLY_EXPLICIT", 5: "HARM_CATEGORY_CIVIC_INTEGRITY",
        7: "HARM_CATEGORY_HARASSMENT", 8: "HARM_CATEGORY_HATE_SPEECH", 9: "HARM_CATEGORY_SEXUALLY_EXPLICIT",
        10: "HARM_CATEGORY_DANGEROUS_CONTENT", 11: "HARM_CATEGORY_CIVIC_INTEGRITY",
    },
    "probability": {1: "NEGLIGIBLE", 2: "LOW", 3: "MEDIUM", 4: "HIGH"},
    "severity": {
        1: "HARM_SEVERITY_NEGLIGIBLE", 2: "HARM_SEVERITY_LOW", 3: "HARM_SEVERITY_MEDIUM", 4: "HARM_SEVERITY_HIGH",
    },
}  # fmt: skip
BLOCKS = ("", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY")


def word_of(said: Any, numbers: tuple[str, ...] = NUMBERS) -> str:
    """The name of an enum value; nothing where it is unspecified."""
    if isinstance(said, int):
        return numbers[said] if 0 <= said < len(numbers) else str(said)
    word = said if isinstance(said, str) else ""
    return "" if word.endswith("_UNSPECIFIED") else word


def named_ratings(ratings: list[Any]) -> list[Any]:
    """Safety ratings with words for numbers: they are written for readers that know the words alone."""
    return [
        {key: RATINGS.get(key, {}).get(value, value) if type(value) is int else value for key, value in row.items()}
        for row in lenient.as_objects(ratings)
    ]


def named_feedback(feedback: dict[str, Any]) -> dict[str, Any]:
    """What was said of the prompt, with words for numbers."""
    named = dict(feedback)
    if type(named.get("blockReason")) is int:
        named["blockReason"] = word_of(named["blockReason"], BLOCKS)
    if isinstance(named.get("safetyRatings"), list):
        named["safetyRatings"] = named_ratings(named["safetyRatings"])
    return named


def reason_of(word: str) -> Reason:
    """A word that is not in the table is a normal stop; whoever asks says so."""
    return REASONS.get(word, "stop")


class Tokens:
    """The usage of a turn. Every chunk counts all so far, but a count may shrink or be left out later: the last of each
    kind stands, unless the total shows that what is left out is zero. It is told once, at the end.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._said: dict[str, Any] = {}

    def count(self, said: dict[str, Any] | None) -> None:
        if said:
            # what is left out, or null, stays as it was; mostly nothing is
            whole = self._said.keys() <= said.keys() and None not in said.values()
            self._said = said if whole or _adds_up(said) else {**self._said, **told(**said)}

    def tell(self) -> None:
        said = self._said
        if said:
            known: wire.Usage = shaped(said, wire.Usage)
            self._ledger.usage(ev.Usage(
                total(known.prompt_token_count, known.tool_use_prompt_token_count),
                total(known.candidates_token_count, known.thoughts_token_count),
                known.cached_content_token_count, None, known.thoughts_token_count, extra={NAME: said},
            ))  # fmt: skip


def _adds_up(said: dict[str, Any]) -> bool:
    """Whether the counts of one chunk are all there are: protobuf leaves out what is zero, and the total shows it."""
    known: wire.Usage = shaped(said, wire.Usage)
    output = total(known.candidates_token_count, known.thoughts_token_count)
    given = total(known.prompt_token_count, known.tool_use_prompt_token_count)
    return bool(output) and said.get("totalTokenCount") == (given or 0) + (output or 0)


def total(*counts: int | None) -> int | None:
    """The sum of what is known; None if nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def fault(ledger: Ledger, error: wire.Error | str) -> None:
    """An error object, in a stream or as a body."""
    said = wire.Error(message=error) if isinstance(error, str) else error
    details: list[dict[str, Any]] = [one for one in said.details or () if isinstance(one, dict)]
    words = [str(one.get("reason") or "") for one in details]
    if is_daily_quota(details):
        words.insert(0, SPENT)
    status = said.code if isinstance(said.code, int) else None
    word = said.status or ("" if status else str(said.code or ""))
    message = str(said.message or "the provider reported an error")
    ledger.fault(
        classify([*words, word], message, status), message, status=status, code=word, retry_after=_retry(details),
        extra=own(error=told(code=said.code, message=message, status=said.status, details=said.details or None)),
    )  # fmt: skip


def _retry(details: list[dict[str, Any]]) -> float | None:
    """`{"@type": "…RetryInfo", "retryDelay": "12.5s"}` → 12.5."""
    for one in details:
        delay = str(one.get("retryDelay") or "")
        if delay.endswith("s") and delay[:-1].replace(".", "", 1).isdecimal():
            return float(delay[:-1])
    return None


Place: TypeAlias = tuple[int | None, tuple[int, int] | None]  # `of` and `span` of a source
NOWHERE: Place = (None, None)
_DRIFT = 64  # recorded offsets are wrong by up to a dozen bytes: the words are looked for from a little before


def width(char: str) -> int:
    """The UTF-8 bytes of a character."""
    code = ord(char)
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4  # noqa: PLR2004


class Answer:
    """All text of one choice, over the parts that it came in."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = [(part.index, part.streamed_text) for part in parts]
        self._text = "".join(text for _, text in self._parts)
        self._ends = None if self._text.isascii() else list(accumulate(map(width, self._text)))
        self._bytes = len(self._text) if self._ends is None else self._ends[-1]

    def place(self, start: int | None, end: int | None, words: str = "") -> Place:
        """The part and code points of a stretch of bytes. `words` are its text, which is believed over the numbers."""
        start = start or 0
        if end is None or not 0 <= start < end:
            return NOWHERE
        first, last = self._chars(start), self._chars(end)
        if words and self._text[first:last] != words:
            first = self._find(words, start, first)
            last = first + len(words)
        elif end > self._bytes:
            return NOWHERE
        return NOWHERE if first < 0 else self._in_part(first, last)

    def _chars(self, offset: int) -> int:
        return offset if self._ends is None else bisect_left(self._ends, offset + 1)

    def _find(self, words: str, start: int, near: int) -> int:
        if self._text.startswith(words, start):
            return start  # the numbers were code points
        at = self._text.find(words, max(0, near - _DRIFT))
        return at if at >= 0 else self._text.find(words)

    def _in_part(self, first: int, last: int) -> Place:
        """A stretch that runs on into the next part is cited in the one where it begins."""
        for index, text in self._parts:
            if first < len(text):
                last = min(last, len(text))
                return index, None if (first, last) == (0, len(text)) else (first, last)
            first, last = first - len(text), last - len(text)
        return NOWHERE


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
