"""Decodes what comes with the parts: finish reasons, safety ratings, usage, errors and grounding metadata.

Grounding metadata comes with the last chunks, sometimes twice. It is held until the cited text ends, reported once, and
kept unchanged for the finish event, from which the Gemini encoder restores it.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._protocols.gemini import wire
from penstock._protocols.gemini.wire import ENUMS, NAME, build_gemini_extra, drop_none, sum_counts
from penstock._vendor_errors import QUOTA_EXHAUSTED, classify_fault, is_daily_quota

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._ledger import Ledger, LedgerPart
    from penstock._protocols.gemini.decode_calls import CallDecoder

FINISH_REASONS: dict[str, ev.Reason] = {
    name: reason for reason, names in ENUMS["finish_reasons"].items() for name in names
}

# ── finish reasons and ratings ────────────────────────────────────────────────────────────────────


def get_enum_name(value: Any, enum: str) -> str:
    """Returns the name of a value of an enum; an empty string if it is unspecified."""
    if isinstance(value, int):
        numbers: list[str] = ENUMS["numbers"][enum]
        return numbers[value] if 0 <= value < len(numbers) else str(value)
    name = value if isinstance(value, str) else ""
    return "" if name.endswith("_UNSPECIFIED") else name


def name_ratings(ratings: list[Any]) -> list[Any]:
    """Replaces numbers in safety ratings by names, because clients only know the names."""
    names = ENUMS["ratings"]
    return [
        {key: names.get(key, {}).get(str(value), value) if type(value) is int else value for key, value in row.items()}
        for row in lenient.as_objects(ratings)
    ]


def name_feedback(feedback: dict[str, Any]) -> dict[str, Any]:
    """Replaces numbers in the prompt feedback by names."""
    named = dict(feedback)
    if type(named.get("blockReason")) is int:
        named["blockReason"] = get_enum_name(named["blockReason"], "block_reason")
    if isinstance(named.get("safetyRatings"), list):
        named["safetyRatings"] = name_ratings(named["safetyRatings"])
    return named


# ── usage and errors ──────────────────────────────────────────────────────────────────────────────


class UsageCounter:
    """Collects the usage of a turn and reports it once, at the end.

    Every chunk has the counts so far, but a count may shrink or be missing later. The last value of each count wins,
    unless the total shows that a missing count is zero.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._counts: dict[str, Any] = {}

    def update_counts(self, counts: dict[str, Any] | None) -> None:
        if counts:
            # Usually no count is missing or null.
            complete = self._counts.keys() <= counts.keys() and None not in counts.values()
            is_complete = complete or _has_matching_total(counts)
            self._counts = counts if is_complete else {**self._counts, **drop_none(**counts)}

    def report_usage(self) -> None:
        if self._counts:
            self._ledger.usage(_read_usage(self._counts))


def _read_usage(counts: dict[str, Any]) -> ev.Usage:
    """Returns canonical usage. Google counts thoughts, and what tools read, apart from the other tokens."""
    prompt = sum_counts(counts, "promptTokenCount", "toolUsePromptTokenCount")
    output = sum_counts(counts, "candidatesTokenCount", "thoughtsTokenCount")
    cached, thoughts = sum_counts(counts, "cachedContentTokenCount"), sum_counts(counts, "thoughtsTokenCount")
    return ev.Usage(prompt, output, cached, None, thoughts, extra={NAME: counts})


def _has_matching_total(counts: dict[str, Any]) -> bool:
    """True if the total equals the sum. Protobuf omits zeros, so the missing counts of this chunk are then zero."""
    usage = _read_usage(counts)
    return bool(usage.output) and counts.get("totalTokenCount") == (usage.input or 0) + (usage.output or 0)


def report_fault(ledger: Ledger, error: wire.Error | str) -> None:
    """Ends the turn with the fault that an error object describes."""
    error = wire.Error(message=error) if isinstance(error, str) else error
    details: list[dict[str, Any]] = [one for one in error.details or () if isinstance(one, dict)]
    codes = [str(one.get("reason") or "") for one in details]
    if is_daily_quota(details):
        codes.insert(0, QUOTA_EXHAUSTED)
    status = error.code if isinstance(error.code, int) else None
    code = error.status or ("" if status else str(error.code or ""))
    message = str(error.message or "the provider reported an error")
    sent = drop_none(code=error.code, message=message, status=error.status, details=error.details or None)
    kind, retry_after = classify_fault([*codes, code], message, status), _parse_retry_delay(details)
    extra = build_gemini_extra(error=sent)
    ledger.fault(kind, message, status=status, code=code, retry_after=retry_after, extra=extra)


def _parse_retry_delay(details: list[dict[str, Any]]) -> float | None:
    """`{"@type": "…RetryInfo", "retryDelay": "12.5s"}` → 12.5."""
    for one in details:
        delay = str(one.get("retryDelay") or "")
        if delay.endswith("s") and delay[:-1].replace(".", "", 1).isdecimal():
            return float(delay[:-1])
    return None


# ── citations ─────────────────────────────────────────────────────────────────────────────────────

TextLocation: TypeAlias = tuple[int | None, tuple[int, int] | None]  # `of` and `span` of a source event
UNLOCATED: TextLocation = (None, None)
_MAX_DRIFT = 64  # recorded offsets are wrong by up to a dozen bytes; the search for the quoted text starts before them


def _utf8_length(char: str) -> int:
    code = ord(char)
    return 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4  # noqa: PLR2004


class AnswerText:
    """Finds cited text. Gemini counts UTF-8 bytes of all text of a candidate; events count characters of one part."""

    def __init__(self, parts: Sequence[LedgerPart]) -> None:
        self._parts = [(part.index, part.streamed_text) for part in parts]
        self._text = "".join(text for _, text in self._parts)
        self._ends = None if self._text.isascii() else list(accumulate(map(_utf8_length, self._text)))
        self._bytes = len(self._text) if self._ends is None else self._ends[-1]

    def locate_range(self, start: int | None, end: int | None, quote: str = "") -> TextLocation:
        """Converts a range of bytes to a part and its characters. If `quote` contradicts the range, the quote wins."""
        start = start or 0
        if end is None or not 0 <= start < end:
            return UNLOCATED
        first, last = self._character_offset(start), self._character_offset(end)
        if quote and self._text[first:last] != quote:
            first = self._find_quote(quote, start, first)
            last = first + len(quote)
        elif end > self._bytes:
            return UNLOCATED
        return UNLOCATED if first < 0 else self._locate_in_part(first, last)

    def _character_offset(self, offset: int) -> int:
        return offset if self._ends is None else bisect_left(self._ends, offset + 1)

    def _find_quote(self, quote: str, start: int, near: int) -> int:
        if self._text.startswith(quote, start):
            return start  # the range counts characters
        position = self._text.find(quote, max(0, near - _MAX_DRIFT))
        return position if position >= 0 else self._text.find(quote)

    def _locate_in_part(self, first: int, last: int) -> TextLocation:
        """Returns the part where the range begins; a range that continues into the next part is shortened."""
        for index, text in self._parts:
            if first < len(text):
                last = min(last, len(text))
                return index, None if (first, last) == (0, len(text)) else (first, last)
            first, last = first - len(text), last - len(text)
        return UNLOCATED


# ── grounding ─────────────────────────────────────────────────────────────────────────────────────

_METADATA_FIELDS = ("citation_metadata", "grounding_metadata", "url_context_metadata")
_QUERY_FIELDS = {"google_search": "web_search", "google_image_search": "image_search", "retrieval": "retrieval"}
_URL_READ = "URL_RETRIEVAL_STATUS_SUCCESS"
_NO_ORIGIN = wire.Origin()


class GroundingDecoder:
    """Collects the grounding metadata of one candidate in `metadata`; reports sources and tool runs from it."""

    def __init__(self, ledger: Ledger, choice: int) -> None:
        self._ledger = ledger
        self._choice = choice
        self.metadata: dict[str, Any] = {}

    def collect_metadata(self, candidate: wire.Candidate) -> None:
        for name in _METADATA_FIELDS:
            key, value = wire.to_camel_case(name), getattr(candidate, name)
            if value:
                self.metadata[key] = _merge_metadata(self.metadata.get(key) or {}, value)

    def _read_metadata(self, key: str) -> wire.GroundingMetadata:
        metadata: wire.GroundingMetadata = wire.convert_leniently(self.metadata.get(key) or {}, wire.GroundingMetadata)
        return metadata

    def report_sources(self, parts: Sequence[LedgerPart], *, last: bool = False) -> None:
        """Reports each source of the text so far once. Sources without a location wait until the last call."""
        if self.metadata:
            answer = AnswerText(parts)
            self._report_citations(answer, last=last)
            self._report_chunks(answer, last=last)

    def _report_citations(self, answer: AnswerText, *, last: bool) -> None:
        metadata = self._read_metadata("citationMetadata")
        for one in (*(metadata.citations or ()), *(metadata.citation_sources or ())):
            location = answer.locate_range(one.start_index, one.end_index)
            if (one.uri or one.title) and (last or location != UNLOCATED):
                self._report_source(wire.Origin(one.uri, title=one.title), location)

    def _report_chunks(self, answer: AnswerText, *, last: bool) -> None:
        """Reports each chunk, in order, for every text that it supports, or once without a location."""
        metadata = self._read_metadata("groundingMetadata")
        locations: dict[int, list[TextLocation]] = {}
        for support in metadata.grounding_supports or ():
            segment = support.segment or wire.Segment()
            location = answer.locate_range(segment.start_index, segment.end_index, segment.text or "")
            for number in support.grounding_chunk_indices or ():
                locations.setdefault(number, []).append(location)
        for number, chunk in enumerate(metadata.grounding_chunks or ()):
            origins = (chunk.web, chunk.retrieved_context, chunk.maps, chunk.image)
            origin = next((one for one in origins if one is not None and one != _NO_ORIGIN), _NO_ORIGIN)
            for location in locations.get(number) or (UNLOCATED,):
                if last or location != UNLOCATED:
                    self._report_source(origin, location, number)

    def _report_source(self, origin: wire.Origin, location: TextLocation, number: int | None = None) -> None:
        url, title, quote = origin.uri or origin.source_uri or "", origin.title or "", origin.text or ""
        key, extra = (self._choice, url or quote, title, location), build_gemini_extra(groundingChunk=number)
        document = origin.document_name or origin.place_id or ""
        self._ledger.cite(key, url, title, *location, quote, document, "", "", extra)

    def report_tool_runs(self, calls: CallDecoder) -> None:
        """Reports a search that only the metadata shows as a tool run, unless the stream already had it."""
        metadata = self._read_metadata("groundingMetadata")
        raw: dict[str, Any] = self.metadata.get("groundingMetadata") or {}
        chunks: Any = raw.get("groundingChunks") or []
        for name, field in _QUERY_FIELDS.items():
            queries = [query for query in getattr(metadata, f"{field}_queries") or () if query]
            if queries:
                calls.add_run_from_metadata(name, {"queries": queries}, chunks)
        retrievals = self._read_metadata("urlContextMetadata").url_metadata or ()
        if retrievals:
            failed = all(retrieval.url_retrieval_status != _URL_READ for retrieval in retrievals)
            urls = [retrieval.retrieved_url for retrieval in retrievals]
            result = self.metadata["urlContextMetadata"]["urlMetadata"]
            calls.add_run_from_metadata("url_context", {"urls": urls}, result, failed=failed)


def _merge_metadata(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Appends citations, which come a few per chunk; other fields are replaced."""
    merged = {**before, **more}
    for key in ("citations", "citationSources"):
        old: Any = before.get(key)
        new: Any = more.get(key)
        if isinstance(old, list) and isinstance(new, list):
            merged[key] = [*old, *(one for one in new if one not in old)]  # pyright: ignore[reportUnknownVariableType]
    return merged
