"""What the encoder remembers of one candidate: its text, its sources, and who is speaking.

Sources become grounding metadata, from code points of a part to bytes of the answer: the other side of `spans`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from penstock import provider_tools
from penstock.jsontext import GrowingText, decode_own, encode, grow, is_object, plain_or_raw
from penstock.lenient_fields import as_object
from penstock.protocols.gemini.decode_calls import TRACES
from penstock.protocols.gemini.decode_metadata import REASONS, reason_of
from penstock.protocols.gemini.wire import owned, said
from penstock.vendor_errors import VendorError, message_of, provider_object, refused_by, vendor_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock import events as ev
    from penstock.events import Fault, Reason, Source
    from penstock.framing import Frame
    from penstock.vendor_errors import ErrorTable

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


WORDS: dict[Reason, str] = {
    "stop": "STOP", "length": "MAX_TOKENS", "calls": "STOP", "filter": "SAFETY", "refusal": "SAFETY", "pause": "STOP",
    "other": "OTHER",
}  # fmt: skip
NOTES = (
    "finishMessage", "safetyRatings", "citationMetadata", "groundingMetadata", "urlContextMetadata", "avgLogprobs",
    "logprobsResult", "tokenCount",
)  # fmt: skip
COUNTS = frozenset({"promptTokenCount", "candidatesTokenCount", "totalTokenCount"})
LATEST = 253_402_300_800  # the year 10000


def time(seconds: int | None) -> str | None:
    """Seconds as Google's APIs write times; what is no time of theirs is none."""
    if seconds is None or not 0 <= seconds < LATEST:
        return None
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def candidates(event: ev.Finish, said_by: dict[int, Candidate]) -> list[dict[str, Any]]:
    """The end of every choice."""
    own = owned(event.extra)
    notes = {one["index"]: one for one in own.get("others", ())}
    ends = [_candidate(0, event.reason, event.raw, own, said_by)]
    for choice, reason in enumerate(event.others, 1):
        note = notes.get(choice, {})
        ends.append(_candidate(choice, reason, note.get("finishReason", ""), note, said_by))
    return ends


def so_far(said_by: dict[int, Candidate], spent: dict[str, Any] | None) -> dict[str, Any]:
    """What there is to say before an error."""
    found = [
        {"index": choice, "groundingMetadata": one.metadata()} for choice, one in said_by.items() if one.metadata()
    ]
    return said(candidates=found or None, usageMetadata=spent)


def _candidate(
    choice: int, reason: Reason, raw: str, own: dict[str, Any], said_by: dict[int, Candidate]
) -> dict[str, Any]:  # fmt: skip
    """The empty text is there because some readers insist on a part; Gemini sends it, too."""
    end: dict[str, Any] = {
        "content": {"parts": [{"text": ""}], "role": "model"},
        "finishReason": _word(reason, raw, own),
    }
    end["index"] = choice
    candidate = said_by.get(choice)
    if candidate is not None and candidate.refused and reason == "stop":
        end["finishReason"] = WORDS["refusal"]
    if "groundingMetadata" not in own and "citationMetadata" not in own and candidate is not None:
        grounding = candidate.metadata()
        if grounding:
            end["groundingMetadata"] = grounding
    end.update({key: own[key] for key in NOTES if key in own})
    return end


def _word(reason: Reason, raw: str, own: dict[str, Any]) -> str:
    """Gemini's own word, known or not, if it means the same; a stop with calls is a stop here."""
    meant = reason_of(raw) if raw in REASONS or own.get("finishReason") == raw else None
    return raw if meant == reason or (meant == "stop" and reason == "calls") else WORDS[reason]


def usage(event: ev.Usage) -> dict[str, Any]:
    """The provider's own object, or one made of our counts: thoughts stand beside the candidates' tokens."""
    own = owned(event.extra)
    if COUNTS & own.keys():
        return own
    thoughts = event.reasoning if event.output is None else min(event.reasoning or 0, event.output)
    return said(
        promptTokenCount=event.input,
        cachedContentTokenCount=event.cached,
        candidatesTokenCount=None if event.output is None else event.output - (thoughts or 0),
        thoughtsTokenCount=None if event.reasoning is None else thoughts,
        totalTokenCount=(event.input or 0) + (event.output or 0),
    )


def function_call(event: ev.CallEnd) -> dict[str, Any]:
    """A call for the client to run."""
    own = owned(event.extra)
    args = {"input": event.json} if event.form == "text" else _object(event.json)
    call = {"id": event.id, "name": event.name, "args": args}
    return said(functionCall=call, thoughtSignature=own.get("thoughtSignature"))


def run(event: ev.CallEnd) -> dict[str, Any] | None:
    """A call that Google ran: its part, an empty one where there is nothing to write, None where there is none."""
    own = owned(event.extra)
    return _part(event.id, event.json, own, "args")


def result(event: ev.Result) -> dict[str, Any] | None:
    """What such a run gave, in the same way."""
    own = owned(event.extra)
    return _part(event.call, event.json, own, "response")


def program(event: ev.CallEnd) -> dict[str, Any]:
    """A program that another provider ran."""
    return {"executableCode": {"language": "PYTHON", "code": provider_tools.program(event.json)}}


def program_output(event: ev.Result) -> dict[str, Any]:
    """What it wrote."""
    outcome = "OUTCOME_FAILED" if event.failed else "OUTCOME_OK"
    return {"codeExecutionResult": {"outcome": outcome, "output": provider_tools.output(event.json)}}


def _part(id: str, json: str, own: dict[str, Any], field: str) -> dict[str, Any] | None:
    kind = own.get("part")
    if kind is None or kind == TRACES:
        return None if kind is None else {}
    inner = {"toolType": own["toolType"], field: _object(json)} if "toolType" in own else _object(json)
    return said(**{kind: {**_id(id, own), **inner}}, thoughtSignature=own.get("thoughtSignature"))


def _object(text: str) -> Any:
    """Arguments must be an object: any other value becomes the argument `input`."""
    value = plain_or_raw(text)
    return value if is_object(value) else {"input": value}


def _id(id: str, own: dict[str, Any]) -> dict[str, str]:
    """Runs are paired by order where Gemini gave no id: a minted one would be news to it when they come back."""
    return {} if own.get("minted") or not id else {"id": id}


NAME = "gemini"
RETRY = "type.googleapis.com/google.rpc.RetryInfo"
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_INVALID, _EXHAUSTED = "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"
_FAILED = VendorError(status=500, type="INTERNAL")
ERRORS: ErrorTable = {
    "auth": VendorError(
        status=400, type=_INVALID, opening="API key not valid. Please pass a valid API key",
        details=({"@type": _INFO, "reason": "API_KEY_INVALID", "domain": "googleapis.com"},),
    ),
    "permission": VendorError(status=403, type="PERMISSION_DENIED"),
    "quota": VendorError(
        status=429, type=_EXHAUSTED,
        opening="You exceeded your current quota, please check your plan and billing details",
        details=({"@type": _INFO, "reason": "QUOTA_EXHAUSTED", "domain": "cloudcode-pa.googleapis.com"},),
    ),
    "not-found": VendorError(status=404, type="NOT_FOUND"),
    "invalid": VendorError(status=400, type=_INVALID),
    "too-large": VendorError(
        status=400, type=_INVALID, opening="The input token count exceeds the maximum number of tokens allowed",
        overflow="The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit}).",
    ),
    "body-size": VendorError(status=400, type=_INVALID, opening="Request payload size exceeds the limit"),
    "rate-limit": VendorError(status=429, type=_EXHAUSTED),
    "filter": VendorError(status=400, type=_INVALID),
    "overloaded": VendorError(status=503, type="UNAVAILABLE"),
    "timeout": VendorError(status=504, type="DEADLINE_EXCEEDED"),
    "cancelled": VendorError(status=499, type="CANCELLED"),
    "network": VendorError(status=502, type="UNAVAILABLE"),
    "server": _FAILED, "other": _FAILED, "truncated": replace(_FAILED, status=502),
    "malformed": replace(_FAILED, status=502), "grammar": replace(_FAILED, status=502),
}  # fmt: skip
# What Google's APIs answer to the statuses of a gateway that are none of the table's.
_STATUSES: dict[int, str] = {401: "UNAUTHENTICATED", 501: "UNIMPLEMENTED"}


def error_body(fault: Fault) -> dict[str, Any]:
    """The body of an HTTP error, which is also the payload of an error in a stream."""
    quoted = provider_object(fault, NAME)
    if isinstance(quoted.get("code"), int) and isinstance(quoted.get("status"), str):  # Interactions has other words
        return {"error": quoted}
    row = vendor_error(ERRORS, fault)
    own = fault.status if refused_by(fault) == "gateway" else None  # the status that a gateway's refusal has
    status = own or row.status
    word = _STATUSES.get(status, row.type)
    error: dict[str, Any] = {"code": status, "message": message_of(fault, row), "status": word}
    details = [dict(one) for one in row.details] if status == row.status else []
    if fault.retry_after is not None:
        details.append({"@type": RETRY, "retryDelay": f"{fault.retry_after:g}s"})
    if details:
        error["details"] = details
    return {"error": error}


def fold_body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    whole: dict[str, Any] = {}
    candidates: dict[int, dict[str, Any]] = {}
    for _, data in frames:
        chunk = as_object(decode_own(data))
        if "error" in chunk:
            return data
        for candidate in chunk.pop("candidates", ()):
            _grow(candidates, candidate)
        whole.update(chunk)
    if candidates:
        whole = {"candidates": [candidates[index] for index in sorted(candidates)], **whole}
    return encode(whole)


def _grow(candidates: dict[int, dict[str, Any]], more: dict[str, Any]) -> None:
    parts = more.pop("content", {}).get("parts", ())
    candidate = candidates.setdefault(more["index"], {"content": {"parts": [], "role": "model"}})
    candidate.update(more)
    for part in parts:
        _add(candidate["content"]["parts"], part)


def _add(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    """Text goes on in the part before it until that is signed; an empty one only signs."""
    last = parts[-1] if parts else {}
    both = isinstance(part.get("text"), str) and isinstance(last.get("text"), str | GrowingText)
    goes_on = both and part.get("thought") == last.get("thought")
    if goes_on and "thoughtSignature" not in last:
        grow(last, "text", part["text"])
        last.update({key: value for key, value in part.items() if key != "text"})
    elif part != {"text": ""}:
        parts.append(part)
