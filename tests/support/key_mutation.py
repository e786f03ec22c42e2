"""Does a key matter? Take it away, or change its value, everywhere in a stream, and see whether an event changes.

An honest answer that knows nothing of the code: a key path is read if some stream, recorded or our own, means something
else without it. Leans on `tests.support.key_paths` for what a path is.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tests.support import corpus
from tests.support import key_paths as keypaths
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running
from tests.support.stream_cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.events import AnyEvent
    from penstock.framing import Frame

EXAMPLES = 20
"""How many streams are asked about a path before it counts as ignored."""
Steps = tuple[str, ...]


class Sample:
    """A stream taken apart, whose payloads can be put together again with a key changed."""

    def __init__(
        self, source: str, frames: Iterable[Frame], read: Callable[[str, list[Frame]], list[AnyEvent]]
    ) -> None:
        self._source, self._read = source, read
        self._frames = [(name, data, _parsed(data)) for name, data in frames]
        self.plain = self.events(lambda _: None)

    def events(self, change: Callable[[Any], None]) -> list[AnyEvent]:
        frames: list[Frame] = []
        for name, data, payload in self._frames:
            if payload is None:
                frames.append((name, data))
                continue
            copy = _outer(name, json.loads(data))
            change(copy)
            frames.append((name, json.dumps(_inner(name, copy)).encode()))
        return self._read(self._source, frames)

    def minds(self, path: str) -> bool:
        """Whether an event changes without the path, or with other values there."""
        steps = tuple(path.replace("[]", ".[]").split("."))
        return any(self.events(partial(edit, steps=steps, new=new)) != self.plain for new in CHANGES)


def _parsed(data: bytes) -> Any:
    try:
        payload = json.loads(data)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None


def _outer(name: bytes, payload: Any) -> Any:
    """A Converse frame is named by what is in it, and the key paths begin with that name."""
    return {name.decode(): payload} if name.decode() in CONVERSE else payload


def _inner(name: bytes, payload: Any) -> Any:
    return payload.get(name.decode(), {}) if name.decode() in CONVERSE else payload


WHOLE_STOPS: dict[str, tuple[str, ...]] = {
    "anthropic-messages": ("content[].input",),
    "openai-chat": ("choices[].message.provider_metadata.*",),
    "openai-responses": (
        "metadata", "text.format.schema", "tools[]", "output[].arguments", "output[].action.env",
        "output[].tools[].input_schema", "output[].tools[].parameters",
    ),
    "gemini": (
        "candidates[].content.parts[].functionCall.args", "candidates[].content.parts[].toolCall.args",
        "candidates[].content.parts[].toolResponse.response",
    ),
    "gemini-interactions": ("outputs[].arguments", "steps[].arguments", "outputs[].result", "steps[].result"),
    "bedrock-converse": (
        "output.message.content[].toolUse.input", "output.message.content[].toolResult.content[].json",
        "additionalModelResponseFields", "trace.guardrail.inputAssessment", "trace.guardrail.outputAssessments",
    ),
    "ollama": ("message.tool_calls[].function.arguments",),
}  # fmt: skip
"""As `keypaths.STOPS`, for answers that were not streamed: where the keys below are data, not protocol."""
CONVERSE = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"}
)
GONE: Any = object()


def edit(value: Any, steps: Steps, new: Callable[[Any], Any]) -> None:
    """Give every value at the path the new one, or take it out."""
    step, rest = steps[0], steps[1:]
    for place in _places(value, step):
        if rest:
            edit(value[place], rest, new)
        elif (other := new(value[place])) is GONE:
            del value[place]
        else:
            value[place] = other


def _places(value: Any, step: str) -> list[Any]:
    """Where in a value a step leads, the last first, so that each may be deleted."""
    if step == "[]":
        return list(reversed(range(len(value)))) if isinstance(value, list) else []
    return [step] if isinstance(value, dict) and step in value else []


def _other(value: Any) -> Any:
    """Another value of the same kind."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 7
        case str():
            return f"{value}~"
        case None:
            return "~"
        case _:
            return GONE


CHANGES: tuple[Callable[[Any], Any], ...] = (lambda _: GONE, _other)


def stream_reader(source: str, frames: list[Frame]) -> list[AnyEvent]:
    return running.run(source, [frames], strict=False).events


def body_reader(source: str, frames: list[Frame]) -> list[AnyEvent]:
    return running.decode_body(source, frames[0][1])


def recordings(kind: str, protocol: str) -> list[list[Frame]]:
    """The frames of every recording of a kind, the shortest first."""
    if kind == "streams":
        found = [_frames(entry.body) for entry in corpus.streams(protocol)]
    elif kind == "responses":
        found = [[(b"", entry.body)] for entry in corpus.responses(protocol)]
    else:
        found = [[(b"", recorded.packed(recorded.error_of(entry)))] for entry in corpus.errors(protocol)]
    return sorted(found, key=lambda frames: sum(len(data) for _, data in frames))


def _frames(body: bytes) -> list[Frame]:
    return [frame for batch in running.batches([body]) for frame in batch]


def ignored(kind: str, protocol: str) -> tuple[set[str], set[str]]:
    """The paths of recorded streams, whole responses or errors that change nothing, and all there are."""
    source, streamed = recorded.SOURCES[protocol], kind == "streams"
    reader = stream_reader if streamed else body_reader
    all_frames = recordings(kind, protocol)
    known = _known(all_frames, (keypaths.STOPS if streamed else WHOLE_STOPS).get(protocol, ()))
    own = [
        Sample(source, _frames(case.body) if streamed else [(b"", case.body)], reader)
        for case in cases(source)
        if case.streamed is streamed
    ]
    make = cache(lambda place: Sample(source, all_frames[place], reader))
    unread: set[str] = set()
    for path in sorted(known, reverse=True):
        below = any(other.startswith((f"{path}.", f"{path}[")) for other in known if other not in unread)
        if not below and not any(sample.minds(path) for sample in [*map(make, known[path]), *own]):
            unread.add(path)
    return unread, set(known)


def _known(recordings: list[list[Frame]], stops: Iterable[str]) -> dict[str, list[int]]:
    """Every path, with the places of the shortest few recordings that have it."""
    paths, found = keypaths.Paths(stops), defaultdict[str, list[int]](list)
    for place, frames in enumerate(recordings):
        payloads = [_outer(name, payload) for name, data in frames if (payload := _parsed(data)) is not None]
        for path in {path for payload in payloads for path in paths.of(payload)}:
            if len(found[path]) < EXAMPLES:
                found[path].append(place)
    return found
