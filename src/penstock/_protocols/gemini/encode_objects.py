"""JSON objects of a response: parts of calls, grounding, finish and usage, errors, and the non-stream body."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import _provider_tool_fields as provider_tools
from penstock import events as ev
from penstock._lenient_fields import as_object
from penstock._lenient_json import GrowingText, decode_trusted, decode_unless_too_deep, encode, grow_text, is_object
from penstock._protocols.gemini.decode_calls import METADATA_ONLY
from penstock._protocols.gemini.decode_metadata import FINISH_REASONS
from penstock._protocols.gemini.wire import ENUMS, NAME, drop_none, get_gemini_fields
from penstock._vendor_errors import provider_error_object, read_errors, refused_by, vendor_error, vendor_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock._framing.base import Frame

# ── the non-stream body ───────────────────────────────────────────────────────────────────────────


def build_body(frames: Sequence[Frame]) -> bytes:
    """Merges the encoder's frames into one response, so that stream and body cannot differ."""
    body: dict[str, Any] = {}
    candidates: dict[int, dict[str, Any]] = {}
    for _, data in frames:
        chunk = as_object(decode_trusted(data))
        if "error" in chunk:
            return data
        for candidate in chunk.pop("candidates", ()):
            parts = candidate.pop("content", {}).get("parts", ())
            merged = candidates.setdefault(candidate["index"], {"content": {"parts": [], "role": "model"}})
            merged.update(candidate)
            for part in parts:
                _append_part(merged["content"]["parts"], part)
        body.update(chunk)
    if candidates:
        body = {"candidates": [candidates[index] for index in sorted(candidates)], **body}
    return encode(body)


def _append_part(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    """Appends text to the previous text part until that is signed. An empty text only adds a signature."""
    last = parts[-1] if parts else {}
    both_text = isinstance(part.get("text"), str) and isinstance(last.get("text"), str | GrowingText)
    if both_text and part.get("thought") == last.get("thought") and "thoughtSignature" not in last:
        grow_text(last, "text", part["text"])
        last.update({key: value for key, value in part.items() if key != "text"})
    elif part != {"text": ""}:
        parts.append(part)


# ── parts of calls ────────────────────────────────────────────────────────────────────────────────


def build_call_part(event: ev.CallEnd) -> dict[str, Any]:
    """Returns the part of a call that the client runs."""
    args = {"input": event.json} if event.form == "text" else _parse_arguments(event.json)
    call = {"id": event.id, "name": event.name, "args": args}
    return drop_none(functionCall=call, thoughtSignature=get_gemini_fields(event.extra).get("thoughtSignature"))


def build_provider_part(id: str, json: str, native: dict[str, Any], field: str) -> dict[str, Any] | None:
    """Returns the part in which Google's tool run came; {} if only metadata showed it; None for another provider's.

    Google pairs runs without an id by their order, so an id that we made up is not written.
    """
    kind = native.get("part")
    if kind is None or kind == METADATA_ONLY:
        return None if kind is None else {}
    value = _parse_arguments(json)
    inner = {"toolType": native["toolType"], field: value} if "toolType" in native else value
    given_id = {} if native.get("minted") or not id else {"id": id}
    return drop_none(**{kind: {**given_id, **inner}}, thoughtSignature=native.get("thoughtSignature"))


def build_program_part(event: ev.CallEnd) -> dict[str, Any]:
    """Returns the part of a program that another provider ran."""
    return {"executableCode": {"language": "PYTHON", "code": provider_tools.program_code(event.json)}}


def build_program_output_part(event: ev.Result) -> dict[str, Any]:
    """Returns the part of that program's output."""
    outcome = "OUTCOME_FAILED" if event.failed else "OUTCOME_OK"
    return {"codeExecutionResult": {"outcome": outcome, "output": provider_tools.program_output(event.json)}}


def _parse_arguments(text: str) -> Any:
    """Parses arguments, which must be an object: another value becomes the argument `input`."""
    value = decode_unless_too_deep(text)
    return value if is_object(value) else {"input": value}


# ── candidates and grounding ──────────────────────────────────────────────────────────────────────

_Citations: TypeAlias = dict[tuple[int, int, int], dict[int, None]]  # part, start, end → numbers of sources


@dataclass(slots=True)
class CandidateState:
    """The text and sources of one candidate. Text is kept because supports count its bytes at the end."""

    text_parts: set[int] = field(default_factory=set[int])
    texts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])  # part, text of one delta
    queries: list[str] = field(default_factory=list[str])  # of searches that another provider ran
    refused: bool = False
    sources: list[ev.Source] = field(default_factory=list["ev.Source"])

    def add_text(self, part: int, text: str) -> None:
        self.texts.append((part, text))

    @property
    def has_moved_sources(self) -> bool:
        """True if a source cites a part that is not the only text; adjacent texts become one here."""
        return any(source.of is not None and self.text_parts != {source.of} for source in self.sources)

    def build_grounding(self) -> dict[str, Any] | None:
        """Builds grounding metadata: one chunk per source and one support per cited range of text."""
        searched = {"webSearchQueries": self.queries} if self.queries else {}
        if not self.sources:
            return searched or None
        numbers: dict[tuple[str, str, str], int] = {}
        citations: _Citations = {}
        texts = self._texts_by_part()
        for source in self.sources:
            key = (source.url, source.title, "" if source.url else source.quote)
            number = numbers.setdefault(key, len(numbers))
            if source.of is not None:
                span = range(len(texts.get(source.of, "")))[slice(*(source.span or (0, None)))]
                if span:
                    citations.setdefault((source.of, span.start, span.stop), {})[number] = None
        metadata: dict[str, Any] = {**searched, "groundingChunks": [_build_grounding_chunk(*key) for key in numbers]}
        supports = list(_build_supports(texts, citations))
        if supports:
            metadata["groundingSupports"] = supports
        return metadata

    def _texts_by_part(self) -> dict[int, str]:
        fragments: dict[int, list[str]] = {}
        for part, text in self.texts:
            fragments.setdefault(part, []).append(text)
        return {part: "".join(fragments[part]) for part in sorted(fragments)}


@dataclass(slots=True)
class UnfinishedPart:
    """An open part: its candidate, and the data of a part that is written at its end."""

    choice: int
    candidate: CandidateState
    media: str = ""
    url: str = ""
    data: list[str] = field(default_factory=list[str])
    waiting: list[bytes] | None = None  # parts that wait until an earlier part of the candidate ends
    done: bool = False


def _build_supports(texts: dict[int, str], citations: _Citations) -> Iterator[dict[str, Any]]:
    """Yields a support for every cited range. Ranges count bytes of the candidate's whole text."""
    starts: dict[int, int] = {}
    total = 0
    for part, text in texts.items():
        starts[part] = total
        total += len(text.encode())
    offsets: dict[int, set[int]] = {}
    for part, first, last in citations:
        offsets.setdefault(part, set()).update((first, last))
    byte_offsets = {part: _get_byte_offsets(texts[part], candidates) for part, candidates in offsets.items()}
    for (part, first, last), numbers in citations.items():
        start, end = (starts[part] + byte_offsets[part][offset] for offset in (first, last))
        segment = {"startIndex": start, "endIndex": end, "text": texts[part][first:last]}
        yield {"segment": segment, "groundingChunkIndices": list(numbers)}


def _get_byte_offsets(text: str, offsets: set[int]) -> dict[int, int]:
    """Converts character offsets to UTF-8 byte offsets in one pass over the text."""
    converted: dict[int, int] = {}
    position = size = 0
    for offset in sorted(offsets):
        size += len(text[position:offset].encode())
        converted[offset], position = size, offset
    return converted


def _build_grounding_chunk(url: str, title: str, quote: str) -> dict[str, Any]:
    if url:
        return {"web": drop_none(uri=url, title=title or None)}
    return {"retrievedContext": drop_none(title=title or None, text=quote or None)}


# ── finish and usage ──────────────────────────────────────────────────────────────────────────────

_FINISH_NAMES: dict[ev.Reason, str] = ENUMS["finish_names"]
_METADATA_FIELDS = """finishMessage safetyRatings citationMetadata groundingMetadata urlContextMetadata avgLogprobs
    logprobsResult tokenCount"""
_USAGE_FIELDS = frozenset({"promptTokenCount", "candidatesTokenCount", "totalTokenCount"})
_YEAR_10000 = 253_402_300_800


def format_time(seconds: int | None) -> str | None:
    """Formats seconds as Google's APIs do; None if they cannot express that time."""
    if seconds is None or not 0 <= seconds < _YEAR_10000:
        return None
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def build_finished_candidates(event: ev.Finish, states: dict[int, CandidateState]) -> list[dict[str, Any]]:
    """Builds the last candidate object of every choice."""
    native = get_gemini_fields(event.extra)
    metadata = {one["index"]: one for one in native.get("others", ())}
    finished = [_build_finished_candidate(0, event.reason, event.raw, native, states)]
    for choice, reason in enumerate(event.others, 1):
        other = metadata.get(choice, {})
        finished.append(_build_finished_candidate(choice, reason, other.get("finishReason", ""), other, states))
    return finished


def build_payload_before_error(states: dict[int, CandidateState], usage: dict[str, Any] | None) -> dict[str, Any]:
    """Builds the grounding and usage so far, which precede an error."""
    candidates = [{"index": choice, "groundingMetadata": one.build_grounding()} for choice, one in states.items()]
    return drop_none(candidates=[one for one in candidates if one["groundingMetadata"]] or None, usageMetadata=usage)


def _build_finished_candidate(
    choice: int, reason: ev.Reason, raw: str, native: dict[str, Any], states: dict[int, CandidateState]
) -> dict[str, Any]:
    """Builds one candidate. It has an empty text as Gemini's, because some clients require a part."""
    finished: dict[str, Any] = {
        "content": {"parts": [{"text": ""}], "role": "model"},
        "finishReason": _get_finish_reason(reason, raw, native),
        "index": choice,
    }
    state = states.get(choice)
    if state is not None and state.refused and reason == "stop":
        finished["finishReason"] = _FINISH_NAMES["refusal"]
    if "groundingMetadata" not in native and "citationMetadata" not in native and state is not None:
        grounding = state.build_grounding()
        if grounding:
            finished["groundingMetadata"] = grounding
    finished.update({key: native[key] for key in _METADATA_FIELDS.split() if key in native})
    return finished


def _get_finish_reason(reason: ev.Reason, raw: str, native: dict[str, Any]) -> str:
    """Returns Gemini's original finish reason if it means the same; a stop with calls is STOP."""
    meaning = FINISH_REASONS.get(raw, "stop" if native.get("finishReason") == raw else None)
    return raw if meaning == reason or (meaning == "stop" and reason == "calls") else _FINISH_NAMES[reason]


def build_usage_metadata(event: ev.Usage) -> dict[str, Any]:
    """Returns Gemini's original object, or builds one, in which candidates' tokens exclude thoughts."""
    native = get_gemini_fields(event.extra)
    if _USAGE_FIELDS & native.keys():
        return native
    thoughts = event.reasoning if event.output is None else min(event.reasoning or 0, event.output)
    return drop_none(
        promptTokenCount=event.input,
        cachedContentTokenCount=event.cached,
        candidatesTokenCount=None if event.output is None else event.output - (thoughts or 0),
        thoughtsTokenCount=None if event.reasoning is None else thoughts,
        totalTokenCount=(event.input or 0) + (event.output or 0),
    )


# ── errors ────────────────────────────────────────────────────────────────────────────────────────

_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
ERRORS = read_errors(__name__)
_STATUS_TYPES: dict[int, str] = {401: "UNAUTHENTICATED", 501: "UNIMPLEMENTED"}  # of refusals by the gateway itself


def build_error_body(fault: ev.Fault) -> dict[str, Any]:
    """Builds the body of an HTTP error, which is also the payload of an error in a stream."""
    original = provider_error_object(fault, NAME)
    if isinstance(original.get("code"), int) and isinstance(original.get("status"), str):  # not of the Interactions API
        return {"error": original}
    row = vendor_error(ERRORS, fault)
    status = (fault.status if refused_by(fault) == "gateway" else None) or row.status
    type_ = _STATUS_TYPES.get(status, row.type)
    error: dict[str, Any] = {"code": status, "message": vendor_message(fault, row), "status": type_}
    details = [dict(one) for one in row.details] if status == row.status else []
    if fault.retry_after is not None:
        details.append({"@type": _RETRY_INFO, "retryDelay": f"{fault.retry_after:g}s"})
    if details:
        error["details"] = details
    return {"error": error}
