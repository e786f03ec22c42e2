"""Reads a conversation in any form, and shortens it to a limit.

Forms are a request of any protocol, host messages, canonical messages, and texts. The protocols' own readers read the
input, and their writers give a changed conversation back in the form in which it came.

What goes together when a conversation is shortened is a unit. Before the last message of the user it is a turn: a
message of the user and everything up to the next one. After it, it is a round: a message of the model with the results
of its calls. A call and its result are always in the same unit, and so are messages that were one message in their
protocol.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from penstock._protocols import detect_protocol, reader, typed_errors, writer
from penstock._protocols import protocol as find_protocol
from penstock._strict_fields import to_json_values
from penstock._tokens import Estimate
from penstock._tokens.tool_rendering import list_telling, read_tools
from penstock.errors import BadRequest
from penstock.request import Call, Json, Message, Request, Result, Role, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._lenient_fields import Object
    from penstock._tokens.count_cache import Count

_encode = msgspec.json.Encoder(order="deterministic").encode


class ConvertedBody(Protocol):
    """A result of `convert_messages` or `convert`: its body is counted."""

    body: dict[str, Any]


AnyConversation: TypeAlias = Request | Message | ConvertedBody | Iterable[Any]
"""A canonical request, message or list of messages; a body of any protocol; messages of any protocol or of a VS Code
host; texts, each a message of the user."""
AnyTools: TypeAlias = Iterable[Any]
"""Canonical tools, or tools of any protocol: each is read by its own shape."""

T = TypeVar("T")
KEPT_CHARACTERS = 400  # of a tool result that is shortened
_MARK = "[{:,} characters were removed to fit the context]"
_ONE_MESSAGE = frozenset({"role", "parts", "type"})  # keys of a message that no body has

# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Conversation:
    """A conversation as a canonical request, with what is needed to write a changed one in the form of the input."""

    def __init__(self, given: Any, request: Request, protocol: str = "", items: Sequence[Any] | None = None) -> None:
        self.given = given
        self.request = request
        self.protocol = protocol  # empty for canonical input and for texts
        self.items = items  # the messages, if the input is a list of them

    def replace_messages(self, messages: list[Message]) -> Any:
        """Returns the input with these messages in place of its own. The input itself is not modified."""
        given = self.given
        if not self.protocol:
            return self._replace_canonical(messages)
        old, new = self._write(self.request.messages), self._write(messages)
        if self.items is not None:
            key = _list_key(self.protocol)
            return _like_given(given, _prefer_originals(new[key], old[key], self.items))
        body = given.body if hasattr(given, "body") else given
        body = {**body, **{key: _changed_field(key, new, old, body) for key in new if new[key] != old.get(key)}}
        return _replace_body(given, body, self.protocol) if hasattr(given, "body") else body

    def _write(self, messages: list[Message]) -> Object:
        with typed_errors:
            return writer(self.protocol)(replace(self.request, messages=messages), None).body

    def _replace_canonical(self, messages: list[Message]) -> Any:
        if isinstance(self.given, Request):
            return replace(self.given, messages=messages)
        if isinstance(self.given, str | Message):
            return self.given
        originals = {id(message): item for message, item in zip(self.request.messages, self.items or (), strict=True)}
        return _like_given(self.given, [originals.get(id(message), message) for message in messages])


def read_conversation(given: AnyConversation, tools: AnyTools = (), protocol: str = "") -> Conversation:
    """Reads any form of a conversation. `tools` are added to its own. Raises `InputError` for anything else."""
    tools = _list_tools(tools)
    if isinstance(given, Request):
        return Conversation(given, _with_tools(given, tools, protocol))
    if isinstance(given, str | Message):
        return Conversation(given, _with_tools(Request(messages=[_to_message(given)]), tools, protocol))
    with typed_errors:
        return _read_foreign(given, tools, protocol)


def _read_foreign(given: Any, tools: list[Any], protocol: str) -> Conversation:
    if hasattr(given, "body"):
        body = to_json_values(given.body)
        return _read_body(given, body, tools, protocol or getattr(given, "protocol", "") or detect_protocol(body))
    if isinstance(given, Mapping) and not given.keys() & _ONE_MESSAGE:
        body = to_json_values(given)
        return _read_body(given, body, tools, protocol or detect_protocol(body))
    if isinstance(given, Mapping) or hasattr(given, "role"):
        return _read_list(given, [given], tools, protocol)
    if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
        raise BadRequest("a request, a list of messages or a text", given, "the conversation")
    return _read_list(given, [*given], tools, protocol)


def _read_list(given: Any, items: list[Any], tools: list[Any], protocol: str) -> Conversation:
    if all(isinstance(item, Message | str) for item in items):
        request = Request(messages=[_to_message(item) for item in items])
        return Conversation(given, _with_tools(request, tools, protocol), items=items)
    for position, item in enumerate(items):
        if item is None or isinstance(item, Message | str | int | float | bytes):
            raise BadRequest("a message like the others, of one protocol", item).at(position).at("messages")
    body: Object = {"messages": to_json_values(items)}
    protocol = protocol or detect_protocol({**body, "tools": list_telling(tools)})
    found = _read_body(given, {_list_key(protocol): body["messages"]}, tools, protocol)
    found.items = items
    return found


def _read_body(given: Any, body: Object, tools: list[Any], protocol: str) -> Conversation:
    return Conversation(given, _with_tools(reader(protocol)(body), tools, protocol), protocol)


def _with_tools(request: Request, tools: list[Any], protocol: str) -> Request:
    """Returns the request with more tools, canonical ones or those of a protocol."""
    return replace(request, tools=[*request.tools, *read_tools(tools, protocol)]) if tools else request


def _list_tools(tools: Any) -> list[Any]:
    given: object = tools
    if isinstance(given, Mapping | str | bytes) or not isinstance(given, Iterable):
        raise BadRequest("a list of tools", tools, "tools")
    return list(tools)


def _to_message(item: Message | str) -> Message:
    return Message("user", [Text(text=item)]) if isinstance(item, str) else item


def _list_key(protocol: str) -> str:
    return find_protocol(protocol).messages_field


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _changed_field(key: str, new: Object, old: Object, body: Mapping[str, Any]) -> Any:
    """Returns a field that changed. Fields that did not change stay as the caller wrote them."""
    lists = [fields.get(key) for fields in (new, old, body)]
    return _prefer_originals(*lists) if all(isinstance(value, list) for value in lists) else new[key]


def _prefer_originals(new: Any, old: Any, items: Any) -> list[Any]:
    """Returns the new messages, but the caller's own object for each that did not change.

    `old` are the caller's messages as the writer writes them; they may differ in spelling.
    """
    left = Counter(_encode(message) for message in new)
    kept: list[Any] = []
    for message, item in zip(reversed(old), reversed(items), strict=False):
        key = _encode(message)
        if left[key]:  # of equal messages the first ones went
            left[key] -= 1
            kept.append(item)
    return kept[::-1] if len(old) == len(items) and len(kept) == len(new) else list(new)


def _replace_body(given: Any, body: Object, protocol: str) -> Any:
    """Returns a copy of a conversion's result with another body."""
    changed: Any = copy.copy(given)
    changed.body = body
    if isinstance(given, list):
        changed[:] = body[_list_key(protocol)]
    if hasattr(changed, "request"):
        changed.request = reader(protocol)(body)
    return changed


def _like_given(given: Any, items: list[Any]) -> Any:
    return tuple(items) if isinstance(given, tuple) else items


# ── shortening ────────────────────────────────────────────────────────────────────────────────────────────────────────


class RemovedMessage(msgspec.Struct, frozen=True):
    """A message that was removed, or whose tool results were shortened. `tokens`: by how many the prompt is shorter.

    `message`: its position before, in the canonical request, as in a breakdown. A `system` field is a message there.
    """

    message: int
    role: Role
    tokens: int
    shortened: bool = False


class FitResult(msgspec.Struct, Generic[T], frozen=True):
    """A conversation that was shortened to a limit, in the form in which it was given.

    `estimate` is the new count, `before` the old one. `limit` is the limit without the reserve. `fits` is false if the
    conversation is too long although everything that may go is gone.
    """

    request: T
    estimate: Estimate
    before: Estimate
    limit: int
    fits: bool
    removed: list[RemovedMessage]


def list_units(messages: Sequence[Message]) -> list[list[int]]:
    """Returns the positions of the messages of each unit, in the order in which the units go.

    System messages, the last message of the user, and the last round are in no unit.
    """
    groups = [*_group_messages(messages)]
    users = [at for at, group in enumerate(groups) if any(messages[one].role == "user" for one in group)]
    plain = [at for at in users if any(_is_plain_user(messages[one]) for one in groups[at])]
    last = plain[-1] if plain else -1
    turns: list[list[int]] = []
    for group in groups[: max(last, 0)]:
        if not turns or _is_plain_user(messages[group[0]]):
            turns.append([])
        turns[-1] += group
    rounds = [group for at, group in enumerate(groups[:-1]) if at > last and at not in users[-1:]]
    return turns + rounds


def _is_plain_user(message: Message) -> bool:
    """True for a message of the user that did not come in one message with tool results."""
    return message.role == "user" and not _is_continued(message)


def _group_messages(messages: Sequence[Message]) -> Iterator[list[int]]:
    """Yields the positions of messages that must stay together; system messages are left out."""
    results = {
        part.call: at for at, message in enumerate(messages) for part in message.parts if isinstance(part, Result)
    }
    group: list[int] = []
    waiting: set[str] = set()  # calls whose result comes later
    before: Role = "system"
    for at, message in enumerate(messages):
        if message.role == "system":
            continue
        follows = message.role == "tool" or before == message.role == "assistant" or _is_continued(message)
        if group and not waiting and not follows:
            yield group
            group = []
        group.append(at)
        before = message.role
        for part in message.parts:
            if isinstance(part, Call) and results.get(part.id, -1) >= at:
                waiting.add(part.id)
            elif isinstance(part, Result):
                waiting.discard(part.call)
    if group:
        yield group


def _is_continued(message: Message) -> bool:
    """True if the message and the one before were one message in their protocol: readers mark that."""
    return _has_mark(message, "joined") or _has_mark(message, "more")


def _has_mark(message: Message, name: str) -> bool:
    marks = (fields.get("_") for fields in (message.extra or {}).values())
    return any(isinstance(row, dict) and name in row for row in marks)


def shorten_message(message: Message) -> Message:
    """Returns the message with its long tool results shortened and marked; the same one if there are none."""
    parts = [_shorten_result(part) if isinstance(part, Result) else part for part in message.parts]
    same = all(new is old for new, old in zip(parts, message.parts, strict=True))
    return message if same else replace(message, parts=parts)


def _shorten_result(result: Result) -> Result:
    if result.by == "provider":
        return result
    texts = [_text_of(part) for part in result.content]
    whole = "".join(texts)
    files = not all(texts)
    if len(whole) <= KEPT_CHARACTERS * 2 and not files:
        return result
    removed = len(whole) - KEPT_CHARACTERS
    mark = _MARK.format(removed) if removed > 0 else "[a file was removed to fit the context]"
    return replace(result, content=[Text(text=f"{whole[:KEPT_CHARACTERS]}\n{mark}")])


def _text_of(part: Any) -> str:
    if isinstance(part, Text):
        return part.text or " "
    return part.json if isinstance(part, Json) else ""


class Shortening:
    """Removes units from a conversation until it fits. Each message is counted once, by the caller.

    `scales` correct the count of each message. `fits` tells whether messages of so many tokens, which may be wrong by
    so many, are short enough.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        counts: Sequence[Count],
        scales: Sequence[float],
        fits: Callable[[float, float], bool],
    ) -> None:
        self._roles: list[Role] = [message.role for message in messages]
        self._messages: list[Message | None] = list(messages)
        self._scales = scales
        self._counts = [(count[0] * by, count[1] * by) for count, by in zip(counts, scales, strict=True)]
        self._fits = fits
        self._units = list_units(messages)
        self._next = 0
        self._changes: dict[int, tuple[float, bool]] = {}  # position → tokens removed, whether only shortened
        self._tokens: float = sum(tokens for tokens, _ in self._counts)
        self._error: float = sum(error for _, error in self._counts)

    @property
    def sums(self) -> Count:
        """Tokens and error of the messages that are left."""
        return max(0.0, self._tokens), max(0.0, self._error)

    def messages(self) -> list[Message]:
        return [message for message in self._messages if message is not None]

    def list_removed(self, factor: float) -> list[RemovedMessage]:
        """Returns what was changed. `factor` corrects the counts."""
        return [
            RemovedMessage(at, self._roles[at], round(tokens * factor), shortened)
            for at, (tokens, shortened) in sorted(self._changes.items())
        ]

    def run(self, count: Callable[[Message], Count] | None) -> None:
        """Removes units, the oldest first, until the conversation fits. With `count`, results are shortened before."""
        if count is not None:
            self._shorten_results(count)
        while not self._fits(self._tokens, self._error) and self.remove_unit():
            pass

    def _shorten_results(self, count: Callable[[Message], Count]) -> None:
        """Shortens tool results, the oldest first, until the conversation fits."""
        messages = self.messages()
        if any(_has_mark(message, "raw") for message in messages):
            return  # the protocol's writer would write these messages as they were read
        groups = [*_group_messages(messages)]
        for at in (at for group in groups[:-1] for at in group):
            old = self._messages[at]
            if old is None or self._fits(self._tokens, self._error):
                return
            new = shorten_message(old)
            if new is not old:
                tokens, error = (amount * self._scales[at] for amount in count(new))
                if tokens < self._counts[at][0]:
                    self._replace(at, new, (tokens, error))

    def remove_unit(self) -> bool:
        """Removes the next unit; returns False if there is none."""
        if self._next >= len(self._units):
            return False
        for at in self._units[self._next]:
            self._replace(at, None, (0.0, 0.0))
        self._next += 1
        return True

    def _replace(self, at: int, message: Message | None, count: Count) -> None:
        old = self._counts[at]
        self._tokens += count[0] - old[0]
        self._error += count[1] - old[1]
        before = self._changes.get(at, (0.0, False))[0]
        self._changes[at] = (before + old[0] - count[0], message is not None)
        self._messages[at], self._counts[at] = message, count
