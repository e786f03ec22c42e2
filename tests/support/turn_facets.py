"""A turn taken apart into facets that can be compared one by one, and which facets a reported loss excuses.

Leans on the fold. What a protocol cannot say must be reported (`loss-<key>`); a facet that changes without such a
report is a loss in silence, which is what the tests look for.
"""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections import Counter
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from penstock import request as rq
from penstock._fold import fold_all
from tests.oracles.outcome import arguments
from tests.support.paths import TESTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock._diagnostics import Diagnostic
    from penstock.events import AnyEvent

Facets = dict[str, Any]
FILLED = frozenset({"id", "model", "created"})


def facets(turn: rq.Turn) -> Facets:
    """What a turn says, in comparable pieces. Order is kept inside a facet, not between facets."""
    first = [part for part in turn.parts if not getattr(part, "choice", 0)]
    calls = [part for part in first if isinstance(part, rq.Call)]
    found: Facets = {
        "id": turn.id,
        "model": turn.model,
        "created": turn.created,
        "text": turn.text,
        "refusal": turn.refusal,
        "reasoning": turn.reasoning,
        "calls": [_call(call) for call in calls if call.by == "client" and not call.cut],
        "cuts": [(call.id, call.name) for call in calls if call.by == "client" and call.cut],
        # Whatever their ids, which some protocols have none of, and in whatever order they were told.
        "provider-calls": sorted((_call(call)[1:3] for call in calls if call.by == "provider"), key=repr),
        # In order within each choice; which of two choices spoke first means nothing.
        "choices": sorted((_spoken(part) for part in turn.parts if getattr(part, "choice", 0)), key=itemgetter(0)),
        "logprobs": [
            row for part in first if isinstance(part, rq.Text) for said in part.logprobs for row in _tokens(said)
        ],
    }
    return found | _rest(turn, first) | _end(turn)


def _call(call: rq.Call) -> tuple[str, str, Any, str]:
    given = call.json if call.form == "text" else arguments(call.json)
    return call.id, call.name, {} if given is None else given, call.form


def _tokens(logprobs: Any) -> list[Any]:
    """One by one, however they came together."""
    return [row for rows in logprobs.values() for row in rows or ()] if isinstance(logprobs, dict) else [logprobs]


def _spoken(part: Any) -> Any:
    return part.choice, type(part).__name__, getattr(part, "text", None) or getattr(part, "json", None)


def _rest(turn: rq.Turn, parts: Sequence[rq.AnyPart]) -> Facets:
    def of(kind: type, *names: str) -> list[Any]:
        return [tuple(getattr(part, name) for name in names) for part in parts if isinstance(part, kind)]

    # State is wanted back with an answer that came to its end. Of one that failed, a target may leave the part open.
    whole = [] if turn.fault else parts
    runs = {part.id: repr(_call(part)[1:3]) for part in parts if isinstance(part, rq.Call)}
    return {
        "reasoning-state": [state for part in whole if isinstance(part, rq.Reasoning) for state in _state(part)],
        "text-state": [state for part in whole if isinstance(part, rq.Text) for state in _state(part)],
        "results": [
            (runs.get(part.call, part.call), arguments(part.json), part.failed, part.partial)
            for part in parts
            if isinstance(part, rq.Result)
        ],
        "asks": of(rq.Ask, "call", "id"),
        "files": [(part.media, part.url, _bytes(part.data)) for part in parts if isinstance(part, rq.File)],
        # A citation may come when it is found or when its text ends: their order says nothing.
        "sources": sorted(set(of(rq.Source, "url", "title"))),
        "spans": [(part.url, _cited(turn.parts, part)) for part in parts if isinstance(part, rq.Source)],
        "opaque": of(rq.Opaque, "protocol", "kind", "data"),
        "data": [(data.name, arguments(data.json), data.id, data.transient) for data in turn.data],
        "unknown": [(event.protocol, event.data) for event in turn.unknown],
    }


def _bytes(data: str) -> bytes:
    """A file's content, or what was sent for it where that is no base64."""
    try:
        return base64.urlsafe_b64decode(data.translate({43: 45, 47: 95}) + "==")
    except ValueError:
        return data.encode()


def _state(part: rq.Text | rq.Reasoning) -> list[str]:
    """What a protocol wants back with a part, piece by piece. What is signed or sealed counts once, in whichever field."""
    found: set[str] = set()
    for name, kept in (part.extra or {}).items():
        for key, value in kept.items():
            if key == "reasoning_details":
                found |= {one[field] for one in value for field in _SEALED if one.get(field)}
            else:
                found.add(value if key in _SEALED else json.dumps([name, key, value], sort_keys=True))
    return sorted(found)


_SEALED = ("signature", "data", "redacted", "encrypted_content", "thoughtSignature")


def _cited(parts: Sequence[rq.AnyPart], source: rq.Source) -> str | None:
    """The words that a citation belongs to, however the text is divided into parts."""
    part: Any = parts[source.of] if source.of is not None and source.of < len(parts) else None
    text: str | None = getattr(part, "text", None)
    return text if text is None or source.span is None else text[slice(*source.span)]


def _end(turn: rq.Turn) -> Facets:
    usage, finish, fault = turn.usage, turn.finish, turn.fault
    return {
        # Some protocols must give a number: zero tokens is how they say that none were counted.
        "input": (usage and usage.input) or None,
        "output": (usage and usage.output) or None,
        # Some count more from the cache than the whole prompt had; what is over cannot be told.
        "cached": (usage and usage.cached and min(usage.cached, usage.input or 0)) or None,
        "written": (usage and usage.written) or None,
        # The same of reasoning and the whole output.
        "reasoned": (usage and usage.reasoning and min(usage.reasoning, usage.output or 0)) or None,
        "steps": [(step.step, step.input, step.output) for step in turn.steps],
        # A stop after calls is a wish to have them run, whatever the word.
        "finish": "calls" if finish and finish.reason == "stop" and turn.calls else finish and finish.reason,
        "others": finish and finish.others,
        "fault": fault and fault.message,
        "fault-kind": fault and fault.kind,
    }


def changed(before: Iterable[AnyEvent], after: Iterable[AnyEvent], *, settled: bool = False) -> set[str]:
    """The facets in which two streams of events differ.

    `settled` leaves out what was only said on the way, and the order of what ran beside it.
    """
    left, right = [facets(turn) for turn in fold_all(before)], [facets(turn) for turn in fold_all(after)]
    if settled:
        for each in (*left, *right):
            each["results"] = sorted([row[:3] for row in each["results"] if not row[3]], key=repr)
            each["data"] = [row[:3] for row in each["data"] if not row[3]]
    if len(left) != len(right):
        return {"turns"}
    return {name for a, b in zip(left, right, strict=True) for name in a if not _same(name, a[name], b[name])}


def _same(name: str, before: Any, after: Any) -> bool:
    """What was not said may be filled in: a name for the turn, the text that a loose citation is put beside."""
    if name in FILLED and not before:
        return True
    if name.endswith("-state"):
        return Counter(before) <= Counter(after)
    if name == "fault" and before and after:
        return _quotes(after, before)
    if name == "spans":  # one that lies behind the end of the text cites nothing
        return Counter(row for row in before if row[1]) <= Counter(after)
    return bool(before == after)


def _quotes(message: str, provider: str) -> bool:
    """Whether a message holds a provider's own: behind the vendor's opening words, or as a sentence with its numbers."""
    numbers = set(re.findall("[0-9]{4,}", provider))
    return provider.rstrip(". ") in message or (bool(numbers) and numbers <= set(re.findall("[0-9]{4,}", message)))


@cache
def excuses() -> dict[str, dict[str, frozenset[str]]]:
    """Target or `any` → loss key → the facets it excuses; the key `always` needs no report."""
    rows = tomllib.loads((TESTS / "data" / "excuses.toml").read_text())
    return {name: {key: frozenset(facets) for key, facets in row.items()} for name, row in rows.items()}


def excused(target: str, diagnostics: Iterable[Diagnostic]) -> set[str]:
    """The facets that may have changed, by the losses that were reported."""
    known = excuses()["any"] | excuses().get(target.partition("@")[0], {})
    keys = {"always"} | {
        finding.code.removeprefix("loss-") for finding in diagnostics if finding.code.startswith("loss-")
    }
    return {facet for key in keys for facet in known.get(key, ())}
