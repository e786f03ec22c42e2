"""Frames and events on one line: new content first, ids and numbering last, repetitions not at all.

Knows no protocol. A payload is its JSON; a value that is the same in nearly all frames is a repetition.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli.terminal import StyledLine, truncate
from penstock._lenient_fields import as_object, get_list, get_text
from penstock._lenient_json import parse_lenient
from penstock._printable_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock._framing.base import Frame
    from penstock.events import Event

# A frame's text comes first, then nested types, then ids, then mere numbering.
_IDENTIFIERS = """id item_id message_id messageId toolCallId callId call_id response_id responseId role status model
    modelVersion provider object""".split()
_NUMBERINGS = """index output_index content_index summary_index annotation_index contentBlockIndex sequence_number
    created created_at system_fingerprint service_tier obfuscation logprobs avgLogprobs p
    native_finish_reason""".split()
_RANK = {"type": 1} | dict.fromkeys(_IDENTIFIERS, 2) | dict.fromkeys(_NUMBERINGS, 3)
_LABELS = ("type", "kind", "event_type")  # what protocols call a payload's type
_OBVIOUS_KEYS = frozenset({*_LABELS, "text", "value", "delta"})  # keys that need no mention
_NEARLY_ALL = 0.8
_MAX_QUOTE = 40  # columns for one string, so that others beside it can be seen too
_MAX_VALUE = 200  # characters of a string that are compared and kept; fewer are shown
_MAX_PATHS = 10_000  # values of one stream that are compared
_MAX_CHILDREN, _MAX_DEPTH = 40, 12  # of a large payload that is kept
_SEARCHED = 1_024  # frames that are searched for repeated values
_STEP = re.compile(r"\.([^.\[]*)|\[(\d+)\]")
_IDS = frozenset({"id", "item", "call", "request_id"})
_TEXT_FIELDS = frozenset({"text", "data", "message", "title", "quote"})
_HIDDEN_FIELDS = frozenset({"extra", "logprobs"})
_DEFAULT_VALUES = {"by": ("client",), "exact": (True,), "form": ("json", "full")}
_STYLES = {
    **dict.fromkeys(("file", "source", "data"), "blue"),
    **dict.fromkeys(("opaque", "usage", "step"), "dim"),
    **dict.fromkeys(("result", "ask"), "cyan"),
    **dict.fromkeys(("start", "finish"), "bold"),
    **dict.fromkeys(("refusal", "unknown"), "red"),
    "text": "green",
    "reasoning": "magenta",
    "call": "yellow",
    "fault": "bold red",
}


def event_style(event: Event | None) -> str:
    """Returns the colour of an event and of the frames that it causes."""
    return _STYLES[event_tag(event).partition("-")[0]] if event is not None else ""


def event_tag(event: Event) -> str:
    """Returns an event's name on the wire, such as `text-delta`."""
    return str(event.__struct_config__.tag)


def event_line(event: Event) -> StyledLine:
    """Returns an event's tag, part, values and ids: `text-delta #0 "Hello"`. Opaque data is left out."""
    line: StyledLine = [(event_tag(event), event_style(event))]
    for name in sorted(event.__struct_fields__, key=_IDS.__contains__):
        value = getattr(event, name)
        if name == "index":
            line.append((f" #{value}", "dim"))
        elif name not in _HIDDEN_FIELDS and value not in (None, "", (), {}, False, 0, *_DEFAULT_VALUES.get(name, ())):
            span = (f" {_format_field(name, value)}", "dim" if name in _IDS else "")
            line += [span] if span not in line else []
    return line


def _format_field(name: str, value: Any) -> str:
    if not isinstance(value, str):
        return f"{name} {printable(_to_text(value))}"
    return quote_text(value, 200) if name in _TEXT_FIELDS else printable(value)


def quote_text(text: str, room: int = _MAX_QUOTE) -> str:
    """Return the text in quotes, cut if it is long."""
    return f'"{truncate(printable(text[: 4 * room]), room)}"'


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()


def _parse(data: bytes) -> Any:
    """Returns the JSON value of a frame; None if it has none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return parse_lenient(data)


class FrameShortener:
    """Shortens the frames of one stream. It learns from all of them first what they repeat."""

    def __init__(self) -> None:
        self._finder = ConstantFinder()
        self._begins: Counter[str] = Counter()
        self._learned = 0

    def learn(self, frame: Frame) -> str:
        """Takes a frame of the stream. Returns its label."""
        self._learned += 1
        payload = _parse(frame[1])
        label = frame[0].decode("utf-8", "replace") or get_text(as_object(payload), *_LABELS)
        self._finder.add(payload)
        if label:
            begin = label[: label.find(".") + 1]
            if begin in self._begins or len(self._begins) < _MAX_PATHS:
                self._begins[begin] += 1
        return label

    @property
    def is_searching(self) -> bool:
        """True until enough frames are learned to know the values that they repeat."""
        return self._learned < _SEARCHED

    def check(self, frames: Sequence[Frame]) -> None:
        """Takes frames of the stream that are not shown: they may refute what is said of every frame."""
        for number, (_, data) in enumerate(frames):
            if not self._finder.is_open:
                self._finder.count += len(frames) - number
                return
            self._finder.add(_parse(data))

    @cached_property
    def _constant(self) -> dict[str, Any]:
        return self._finder.result()

    @cached_property
    def prefix(self) -> str:
        """What nearly all labels begin with, up to a dot: `response.`."""
        common, times = max(self._begins.items(), key=lambda row: row[1], default=("", 0))
        return common if times >= max(self._learned * _NEARLY_ALL, 3) else ""

    @property
    def constant_line(self) -> StyledLine:
        return [
            span
            for path, value in self._constant.items()
            if _is_shown(value)
            for span in _format_leaf(_last_key(path), value)
        ]

    def shorten(self, frame: Frame, style: str = "") -> StyledLine:
        """Returns a frame's name or type, then its content."""
        payload = parse_lenient(frame[1])
        if not isinstance(payload, dict):
            words = [frame[0], frame[1][:400]]
            return [(printable(b" ".join(filter(None, words)).decode("utf-8", "replace")), style)]
        head = frame_label(frame)
        leaves = [(path, value) for path, value in _iterate_leaves(payload) if self._constant.get(path) != _cut(value)]
        leaves.sort(key=lambda leaf: _RANK.get(_last_key(leaf[0]), 0))  # stable: otherwise in the payload's own order
        line: StyledLine = [(printable(head.removeprefix(self.prefix)), style)] if head else []
        for path, value in leaves:
            if _is_shown(value) and not (value == head and path[1:] in _LABELS):
                line += _format_leaf(_last_key(path), value)
        return line if head or not line else [(line[0][0].lstrip(), line[0][1]), *line[1:]]


def frame_label(frame: Frame) -> str:
    """Returns a frame's name in the framing, else the type of its payload."""
    return frame[0].decode("utf-8", "replace") or get_text(as_object(parse_lenient(frame[1])), *_LABELS)


def _is_shown(value: Any) -> bool:
    return value is not False and value not in (None, "", [], {})


def _format_leaf(key: str, value: Any) -> StyledLine:
    if isinstance(value, str):
        value = printable(value) if key in _LABELS else quote_text(value)
        return [(f" {value}", "")] if key in _OBVIOUS_KEYS else [(f" {key} ", "dim"), (value, "")]
    return [(f" {key} ", "dim"), (_to_text(value), "")]


def _last_key(path: str) -> str:
    return path.rpartition(".")[2].partition("[")[0]


def _iterate_leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values in a JSON document with their paths; empty objects and lists count as values."""
    children: dict[str, Any] = {f".{key}": item for key, item in as_object(value).items()}
    if isinstance(value, list):
        children = {f"[{position}]": item for position, item in enumerate(get_list({"": value}, ""))}
    for step, item in children.items():
        yield from _iterate_leaves(item, path + step)
    if not children:
        yield path, value


class ConstantFinder:
    """Finds the values that nearly all payloads repeat and none changes. They are printed once, above the table.

    Of a long stream, only the first payloads are searched for such values; the later ones can only refute them.
    """

    def __init__(self) -> None:
        self.count = 0
        self._times: dict[str, int] = {}
        self._values: dict[str, Any] = {}
        self._varied: set[str] = set()
        self._candidates: list[tuple[str, list[str | int], Any]] | None = None  # path, its steps, value

    @property
    def is_open(self) -> bool:
        """True if further payloads can change the result."""
        return self._candidates is None or bool(self._candidates)

    def add(self, payload: Any) -> None:
        self.count += 1
        if self._candidates is not None:
            self._check_candidates(payload)
            return
        for path, value in islice(_iterate_leaves(payload), _MAX_PATHS):
            if path in self._times:
                self._times[path] += 1
                if self._values[path] != _cut(value):
                    self._varied.add(path)
            elif len(self._times) < _MAX_PATHS:
                self._times[path], self._values[path] = 1, _cut(value)
        if self.count == _SEARCHED:
            found = self.result()
            self._candidates = [(path, _split_path(path), value) for path, value in found.items()]
            self._times = {path: self._times[path] - self.count for path in found}  # from here on: minus the misses

    def result(self) -> dict[str, Any]:
        """Returns the repeated values by their paths."""
        often = max(self.count * _NEARLY_ALL, 3)
        base = self.count if self._candidates is not None else 0
        return {
            path: self._values[path]
            for path, times in self._times.items()
            if base + times >= often and path not in self._varied
        }

    def _check_candidates(self, payload: Any) -> None:
        refuted: set[str] = set()
        for path, steps, wanted in self._candidates or ():
            value = payload
            try:
                for step in steps:
                    value = value[step]
            except (KeyError, IndexError, TypeError):
                self._times[path] -= 1
                continue
            if value != wanted and _cut(value) != wanted:
                refuted.add(path)
        if refuted:
            self._candidates = [one for one in self._candidates or () if one[0] not in refuted]
            self._times = {path: times for path, times in self._times.items() if path not in refuted}


def _split_path(path: str) -> list[str | int]:
    return [int(position) if position else key for key, position in _STEP.findall(path)]


def _cut(value: Any) -> Any:
    """Cuts a long text. What follows is not shown."""
    return value[:_MAX_VALUE] if isinstance(value, str) and len(value) > _MAX_VALUE else value


def trim_frame(frame: Frame, size: int) -> Frame:
    """Returns a frame of more than `size` bytes with shorter texts, lists and objects: enough for one line."""
    name, data = frame
    if len(data) <= size:
        return frame
    payload = parse_lenient(data)
    if not isinstance(payload, dict):
        return name, data[:size]
    return name, msgspec.json.encode(_trim(payload, 0), enc_hook=str)


def _trim(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return None
    if fields := as_object(value):
        return {key[:_MAX_VALUE]: _trim(item, depth + 1) for key, item in islice(fields.items(), _MAX_CHILDREN)}
    if isinstance(value, list):
        return [_trim(item, depth + 1) for item in get_list({"": value}, "")[:_MAX_CHILDREN]]
    return _cut(value)
