"""Rules for turns: system messages, alternating roles, empty messages, and how a conversation ends.

Each rule is one function and is only used where a target demands it. Messages of role `tool` count as the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from msgspec.structs import replace

from penstock import request as rq
from penstock._markers import wrap_system_parts
from penstock._messages.traversal import with_messages
from penstock._request_writer import collect_text

if TYPE_CHECKING:
    from penstock._diagnostics import Diagnostics
    from penstock._providers.thinking import Thinking
    from penstock._request_profile import Empty, System
    from penstock.events import Extra

EMPTY = "(empty)"
OPENING = "(the conversation goes on from here)"


def count_assistant_system_prompt(request: rq.Request, kinds: tuple[type, ...] = (rq.Text,)) -> int:
    """Returns how many assistant messages at the front are a system prompt (for hosts without that role).

    There is no such prompt if the host sends system messages, or no user message follows. `kinds`: the parts that the
    prompt may hold.
    """
    count = 0
    for message in request.messages:
        if message.role != "assistant" or not all(type(part) in kinds for part in message.parts):
            break
        count += 1
    spoken = any(message.role in ("user", "tool") for message in request.messages[count:])
    return count if spoken and not any(message.role == "system" for message in request.messages) else 0


def promote_system_prompt(request: rq.Request) -> rq.Request:
    """Turns assistant messages before the first user message into the system prompt."""
    count = count_assistant_system_prompt(request)
    if not count:
        return request
    prompt = [rq.Message("system", message.parts) for message in request.messages[:count]]
    return replace(request, messages=[*prompt, *request.messages[count:]])


def place_system(request: rq.Request, how: System, notes: Diagnostics) -> rq.Request:
    """Keeps system messages inside the conversation, moves them to the front, or makes them user messages."""
    if how == "keep":
        return request
    front = _system_prompt_length(request.messages)
    inside = [message for message in request.messages[front:] if message.role == "system"]
    if not inside:
        return request
    if how == "hoist":
        notes.add("system-hoisted", "a system message inside the conversation was moved to the front")
        rest = [message for message in request.messages[front:] if message.role != "system"]
        return replace(request, messages=[*request.messages[:front], *inside, *rest])
    notes.add("system-said", "a system message inside the conversation is said by the user")
    rewritten = [
        _as_user_message(message) if message.role == "system" else message for message in request.messages[front:]
    ]
    return replace(request, messages=[*request.messages[:front], *rewritten])


def _system_prompt_length(messages: list[rq.Message]) -> int:
    """Returns how many messages make up the system prompt."""
    return next((position for position, message in enumerate(messages) if message.role != "system"), len(messages))


def _as_user_message(message: rq.Message) -> rq.Message:
    return rq.Message("user", wrap_system_parts(message.parts))


def fill_empty(request: rq.Request, how: Empty, notes: Diagnostics) -> rq.Request:
    """Drops empty messages and blank texts, or gives them a placeholder.

    A last message of the user always gets a placeholder, because it must be answered.
    """
    if how == "keep":
        return request
    messages = request.messages
    if all(_has_content(message) for message in messages):
        return request
    kept_messages: list[rq.Message] = []
    for position, message in enumerate(messages):
        if _has_content(message):
            kept_messages.append(message)
            continue
        parts: list[Any] = [part for part in message.parts if not _is_blank(part)]
        last = position == len(messages) - 1 and message.role == "user"
        if not parts and (how == "placeholder" or last) and message.role != "system":
            parts = [rq.Text(EMPTY)]
        if parts:
            kept_messages.append(replace(message, parts=parts))
        notes.add("empty", "a message or a text with nothing in it was left out or given a placeholder")
    return replace(request, messages=kept_messages)


def drop_empty_parts(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """Drops messages without content. A user message at the end stays, because it must be answered.

    OpenAI refuses an assistant's message without content and calls, and an empty message between a call and its result
    would separate the two. google-genai sends such messages when it calls functions by itself.
    """
    messages = request.messages
    last = len(messages) - 1
    kept_messages = [
        one for position, one in enumerate(messages) if not _is_empty(one) or (position == last and one.role == "user")
    ]
    if len(kept_messages) == len(messages):
        return request
    notes.add("empty", "a message with nothing in it was left out")
    return replace(request, messages=kept_messages)


def _is_empty(message: rq.Message) -> bool:
    """True if a message has no content and no state."""
    if message.role == "tool":
        return False
    for part in message.parts:
        if not _is_blank(part) or any(fields.keys() - {"_"} for fields in (part.extra or {}).values()):
            return False
    return True


def _has_content(message: rq.Message) -> bool:
    if message.role == "tool":
        return True
    for part in message.parts:
        if type(part) is rq.Text and (not part.text or part.text.isspace()):
            return False
    return bool(message.parts)


def _is_blank(part: rq.AnyPart) -> TypeGuard[rq.Text]:
    return type(part) is rq.Text and not part.text.strip()


def alternate(request: rq.Request, notes: Diagnostics, protocol: str = "") -> rq.Request:
    """Merges neighbours of the same role. A user message after results is marked to be sent together with them."""
    runs: list[list[rq.Message]] = []  # neighbours that become one message
    changed = False
    before = ""
    for message in request.messages:
        if before == message.role and before in ("user", "assistant"):
            runs[-1].append(message)
            changed = True
        elif before == "tool" and message.role == "user" and protocol:
            joined = _mark_joined(message, protocol)
            changed = changed or joined is not message
            runs.append([joined])
        else:
            runs.append([message])
        before = message.role
    if len(runs) < len(request.messages):
        notes.add("merged", "messages of the same role in a row were merged: the target wants turns to alternate")
    if not changed:
        return with_messages(request, request.messages)
    return with_messages(request, [run[0] if len(run) == 1 else _merge_messages(run) for run in runs])


def _merge_messages(messages: list[rq.Message]) -> rq.Message:
    """Merges messages into one, in linear time."""
    parts: list[rq.AnyPart] = []
    extra: Extra = {}
    name = ""
    for message in messages:
        parts += message.parts
        name = name or message.name
        for protocol, fields in (message.extra or {}).items():
            extra.setdefault(protocol, {}).update(fields)
    return rq.Message(messages[0].role, parts, name, extra or None)


def _mark_joined(message: rq.Message, protocol: str) -> rq.Message:
    fields = (message.extra or {}).get(protocol, {})
    marks = fields.get("_", {})
    if marks.get("joined"):
        return message
    return replace(message, extra={**(message.extra or {}), protocol: {**fields, "_": {**marks, "joined": True}}})


def open_with_user(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """Puts a placeholder in front if the first message is not the user's."""
    front = _system_prompt_length(request.messages)
    if front < len(request.messages) and request.messages[front].role != "assistant":
        return request
    notes.add("opened", "the conversation does not begin with the user; a placeholder was put in front")
    opening = rq.Message("user", [rq.Text(OPENING)])
    return replace(request, messages=[*request.messages[:front], opening, *request.messages[front:]])


# The text that Anthropic recommends instead of a prefill:
# https://platform.claude.com/docs/en/build-with-claude/prompt-engineering/claude-prompting-best-practices
CONTINUE = "Continue from where you left off."
_SILENT_PARTS = frozenset({rq.Reasoning, rq.Source})


def drop_reasoning_only(request: rq.Request, protocol: str, notes: Diagnostics) -> rq.Request:
    """Drops assistant messages that hold only reasoning, or state that the target cannot read.

    OpenAI refuses a message without content, Anthropic one that ends with thinking. Reasoning that an answer follows
    goes into that answer.
    """
    messages = request.messages
    if all(message.role != "assistant" or _is_answer(message, protocol) for message in messages):
        return request
    kept_messages: list[rq.Message] = []
    waiting: list[rq.AnyPart] = []  # reasoning, for the answer that follows
    for position, message in enumerate(messages):
        if message.role == "assistant" and not _is_answer(message, protocol):
            if position + 1 < len(messages) and messages[position + 1].role == "assistant":
                waiting += message.parts
                continue
            _report_dropped(message, notes)
            waiting = []
            continue
        kept_messages.append(replace(message, parts=[*waiting, *message.parts]) if waiting else message)
        waiting = []
    return with_messages(request, kept_messages)


def _report_dropped(message: rq.Message, notes: Diagnostics) -> None:
    if any(type(part) is rq.Opaque for part in message.parts):
        notes.add("loss-opaque", "a turn that holds nothing but state of another protocol is left out", "opaque")
    else:
        notes.add("loss-reasoning-only", "an answer that holds nothing but reasoning is left out", "reasoning-only")


def _is_answer(message: rq.Message, protocol: str) -> bool:
    return any(_has_answer_content(part, protocol) for part in message.parts)


def _has_answer_content(part: Any, protocol: str) -> bool:
    """True if a part is more than reasoning and foreign state."""
    if isinstance(part, rq.Text):
        return bool(part.text.strip())
    if isinstance(part, rq.Call):
        return not part.cut
    if isinstance(part, rq.Opaque):
        return part.protocol == protocol or bool(collect_text(part.data))
    return type(part) not in _SILENT_PARTS


def end_conversation(
    request: rq.Request, facts: Thinking | None, notes: Diagnostics, *, trims: bool, prefills: bool
) -> rq.Request:
    """Adds a user message after a last assistant message, if the model refuses to continue it.

    `trims`: a last assistant message must not end with white space. `prefills`: the client means it as the beginning of
    the answer.
    """
    last = request.messages[-1] if request.messages else None
    if last is None or last.role != "assistant" or _ends_with_tool(last):
        return request
    if facts is None or (facts.prefill and not (facts.exclusive and _is_thinking(request.settings))):
        return _trim_last_text(request, last, notes) if trims else request
    model = request.model or "the model"
    guess = f" (as its nearest relative {facts.relative})" if facts.relative else ""
    why = f"{model} takes no conversation that ends with the assistant{guess}: a user turn is added, {CONTINUE!r}"
    notes.add("loss-prefill" if prefills else "changed-last-turn", why, "prefill" if prefills else "last-turn")
    return replace(request, messages=[*request.messages, rq.Message("user", [rq.Text(CONTINUE)])])


def _ends_with_tool(message: rq.Message) -> bool:
    """True if the message ends with a tool that a provider ran: other protocols get its result after it."""
    parts = [part for part in message.parts if type(part) not in _SILENT_PARTS]
    return bool(parts) and type(parts[-1]) in (rq.Call, rq.Result)


def _is_thinking(settings: rq.Settings) -> bool:
    """True if thinking is enabled: Claude 4.5 and older accept no prefill then."""
    return settings.budget != 0 and bool(settings.effort or settings.budget or settings.thoughts)


def _trim_last_text(request: rq.Request, last: rq.Message, notes: Diagnostics) -> rq.Request:
    position = max((position for position, part in enumerate(last.parts) if type(part) is rq.Text), default=-1)
    part: Any = last.parts[position] if position >= 0 else None
    if part is None or part.text == part.text.rstrip():
        return request
    notes.add("changed-last-turn", "white space at the end of the last turn is left out: it is refused", "last-turn")
    parts = [*last.parts[:position], replace(part, text=part.text.rstrip()), *last.parts[position + 1 :]]
    return replace(request, messages=[*request.messages[:-1], replace(last, parts=parts)])
