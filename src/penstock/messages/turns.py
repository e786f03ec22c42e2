"""Who may speak when: system messages, turns that must alternate, messages with nothing in them.

Each rule is one function and is only used where a target demands it. Messages of role `tool` count as the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock.markers.marks import wrap_system_parts
from penstock.messages.traversal import with_messages
from penstock.request_writer import collect_text

if TYPE_CHECKING:
    from penstock.diagnostics import Diagnostics
    from penstock.events import Extra
    from penstock.providers.thinking import Thinking
    from penstock.request_profile import Empty, System

EMPTY = "(empty)"
OPENING = "(the conversation goes on from here)"


def leading(request: rq.Request, kinds: tuple[type, ...] = (rq.Text,)) -> int:
    """How many messages at the front are a system prompt that the assistant says (for hosts without that role).

    A host that sends system messages is believed; so is one that never lets a user speak. `kinds`: the parts that the
    prompt may hold.
    """
    count = 0
    for message in request.messages:
        if message.role != "assistant" or not all(type(part) in kinds for part in message.parts):
            break
        count += 1
    spoken = any(message.role in ("user", "tool") for message in request.messages[count:])
    return count if spoken and not any(message.role == "system" for message in request.messages) else 0


def lead(request: rq.Request) -> rq.Request:
    """What an assistant says before the first user does becomes the system prompt."""
    count = leading(request)
    if not count:
        return request
    prompt = [rq.Message("system", message.parts) for message in request.messages[:count]]
    return replace(request, messages=[*prompt, *request.messages[count:]])


def place_system(request: rq.Request, how: System, notes: Diagnostics) -> rq.Request:
    """System messages inside the conversation: kept there, hoisted to the front, or said by the user."""
    front = _front(request.messages)
    inside = [message for message in request.messages[front:] if message.role == "system"]
    if how == "keep" or not inside:
        return request
    if how == "hoist":
        notes.add("system-hoisted", "a system message inside the conversation was moved to the front")
        rest = [message for message in request.messages[front:] if message.role != "system"]
        return replace(request, messages=[*request.messages[:front], *inside, *rest])
    notes.add("system-said", "a system message inside the conversation is said by the user")
    said = [_by_user(message) if message.role == "system" else message for message in request.messages[front:]]
    return replace(request, messages=[*request.messages[:front], *said])


def _front(messages: list[rq.Message]) -> int:
    """How many messages make up the system prompt."""
    return next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))


def _by_user(message: rq.Message) -> rq.Message:
    return rq.Message("user", wrap_system_parts(message.parts))


def fill_empty(request: rq.Request, how: Empty, notes: Diagnostics) -> rq.Request:
    """Messages with nothing in them, and blank texts: left out, or given a placeholder.

    Where the last message is a user's, it gets a placeholder in any case: somebody must be answered.
    """
    if how == "keep":
        return request
    messages = request.messages
    if all(_sound(message) for message in messages):
        return request
    made: list[rq.Message] = []
    for place, message in enumerate(messages):
        if _sound(message):
            made.append(message)
            continue
        parts: list[Any] = [part for part in message.parts if not _blank(part)]
        last = place == len(messages) - 1 and message.role == "user"
        if not parts and (how == "placeholder" or last) and message.role != "system":
            parts = [rq.Text(EMPTY)]
        if parts:
            made.append(replace(message, parts=parts))
        notes.add("empty", "a message or a text with nothing in it was left out or given a placeholder")
    return replace(request, messages=made)


def drop_unsaid(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """The request without messages that say nothing. A user's at the end stays: somebody must be answered.

    OpenAI refuses an assistant's message without content and calls, and an empty message between a call and its result
    would part the two. google-genai sends such messages when it calls functions by itself.
    """
    messages = request.messages
    last = len(messages) - 1
    made = [one for place, one in enumerate(messages) if not _unsaid(one) or (place == last and one.role == "user")]
    if len(made) == len(messages):
        return request
    notes.add("empty", "a message with nothing in it was left out")
    return replace(request, messages=made)


def _unsaid(message: rq.Message) -> bool:
    """Whether a message says nothing and carries no state."""
    if message.role == "tool":
        return False
    for part in message.parts:
        if (
            type(part) is not rq.Text
            or part.text.strip()
            or any(own.keys() - {"_"} for own in (part.extra or {}).values())
        ):
            return False
    return True


def _sound(message: rq.Message) -> bool:
    if message.role == "tool":
        return True
    for part in message.parts:
        if type(part) is rq.Text and (not part.text or part.text.isspace()):
            return False
    return bool(message.parts)


def _blank(part: rq.AnyPart) -> bool:
    return type(part) is rq.Text and not part.text.strip()


def alternate(request: rq.Request, notes: Diagnostics, protocol: str = "") -> rq.Request:
    """Neighbours of the same role become one message; what a user says behind results is marked to join them."""
    runs: list[list[rq.Message]] = []  # neighbours that become one message
    changed = False
    before = ""
    for message in request.messages:
        if before == message.role and before in ("user", "assistant"):
            runs[-1].append(message)
            changed = True
        elif before == "tool" and message.role == "user" and protocol:
            joined = _joined(message, protocol)
            changed = changed or joined is not message
            runs.append([joined])
        else:
            runs.append([message])
        before = message.role
    if len(runs) < len(request.messages):
        notes.add("merged", "messages of the same role in a row were merged: the target wants turns to alternate")
    if not changed:
        return with_messages(request, request.messages)
    return with_messages(request, [run[0] if len(run) == 1 else _merge(run) for run in runs])


def _merge(messages: list[rq.Message]) -> rq.Message:
    """One message with the parts of all, in time proportional to their number."""
    parts: list[rq.AnyPart] = []
    extra: Extra = {}
    name = ""
    for message in messages:
        parts += message.parts
        name = name or message.name
        for protocol, own in (message.extra or {}).items():
            extra.setdefault(protocol, {}).update(own)
    return rq.Message(messages[0].role, parts, name, extra or None)


def _joined(message: rq.Message, protocol: str) -> rq.Message:
    own = (message.extra or {}).get(protocol, {})
    marks = own.get("_", {})
    if marks.get("joined"):
        return message
    return replace(message, extra={**(message.extra or {}), protocol: {**own, "_": {**marks, "joined": True}}})


def open_with_user(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """The first to speak is the user: a placeholder goes in front where it is not."""
    front = _front(request.messages)
    if front < len(request.messages) and request.messages[front].role != "assistant":
        return request
    notes.add("opened", "the conversation does not begin with the user; a placeholder was put in front")
    opening = rq.Message("user", [rq.Text(OPENING)])
    return replace(request, messages=[*request.messages[:front], opening, *request.messages[front:]])


# The words that Anthropic advises in place of a prefill:
# https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/claude-prompting-best-practices
CONTINUE = "Continue from where you left off."
_MUTE = frozenset({rq.Reasoning, rq.Source})


def drop_unspoken(request: rq.Request, protocol: str, notes: Diagnostics) -> rq.Request:
    """The request without answers that hold nothing but reasoning, or state that the target cannot read.

    OpenAI refuses a message without content, Anthropic one that ends with thinking. Reasoning that an answer follows
    goes into that answer.
    """
    messages = request.messages
    if all(message.role != "assistant" or _speaks(message, protocol) for message in messages):
        return request
    made: list[rq.Message] = []
    waiting: list[rq.AnyPart] = []  # reasoning, for the answer that follows
    for place, message in enumerate(messages):
        if message.role == "assistant" and not _speaks(message, protocol):
            if place + 1 < len(messages) and messages[place + 1].role == "assistant":
                waiting += message.parts
                continue
            _report(message, notes)
            waiting = []
            continue
        made.append(replace(message, parts=[*waiting, *message.parts]) if waiting else message)
        waiting = []
    return with_messages(request, made)


def _report(message: rq.Message, notes: Diagnostics) -> None:
    if any(type(part) is rq.Opaque for part in message.parts):
        notes.add("loss-opaque", "a turn that holds nothing but state of another protocol is left out", "opaque")
    else:
        notes.add("loss-reasoning-only", "an answer that holds nothing but reasoning is left out", "reasoning-only")


def _speaks(message: rq.Message, protocol: str) -> bool:
    return any(_says(part, protocol) for part in message.parts)


def _says(part: Any, protocol: str) -> bool:
    """Whether a part is more than reasoning and state of others."""
    if isinstance(part, rq.Text):
        return bool(part.text.strip())
    if isinstance(part, rq.Call):
        return not part.cut
    if isinstance(part, rq.Opaque):
        return part.protocol == protocol or bool(collect_text(part.data))
    return type(part) not in _MUTE


def end_conversation(
    request: rq.Request, facts: Thinking | None, notes: Diagnostics, *, trims: bool, prefills: bool
) -> rq.Request:
    """The request with an end that its model takes: a user turn is added behind a last turn of the assistant.

    `trims`: where such a turn is taken, it must not end with white space. `prefills`: by it the client means the
    beginning of the answer.
    """
    last = request.messages[-1] if request.messages else None
    if last is None or last.role != "assistant" or _ends_with_tool(last):
        return request
    if facts is None or (facts.prefill and not (facts.exclusive and _thinks(request.settings))):
        return _trimmed(request, last, notes) if trims else request
    model = request.model or "the model"
    guess = f" (as its nearest relative {facts.relative})" if facts.relative else ""
    why = f"{model} takes no conversation that ends with the assistant{guess}: a user turn is added, {CONTINUE!r}"
    notes.add("loss-prefill" if prefills else "changed-last-turn", why, "prefill" if prefills else "last-turn")
    return replace(request, messages=[*request.messages, rq.Message("user", [rq.Text(CONTINUE)])])


def _ends_with_tool(message: rq.Message) -> bool:
    """Whether the last thing in it is a tool that a provider ran: other protocols are sent its result behind it."""
    parts = [part for part in message.parts if type(part) not in _MUTE]
    return bool(parts) and type(parts[-1]) in (rq.Call, rq.Result)


def _thinks(settings: rq.Settings) -> bool:
    """Whether thinking is on, where it must be asked for: Claude 4.5 and older take no prefill then."""
    return settings.budget != 0 and bool(settings.effort or settings.budget or settings.thoughts)


def _trimmed(request: rq.Request, last: rq.Message, notes: Diagnostics) -> rq.Request:
    place = max((place for place, part in enumerate(last.parts) if type(part) is rq.Text), default=-1)
    part: Any = last.parts[place] if place >= 0 else None
    if part is None or part.text == part.text.rstrip():
        return request
    notes.add("changed-last-turn", "white space at the end of the last turn is left out: it is refused", "last-turn")
    parts = [*last.parts[:place], replace(part, text=part.text.rstrip()), *last.parts[place + 1 :]]
    return replace(request, messages=[*request.messages[:-1], replace(last, parts=parts)])
