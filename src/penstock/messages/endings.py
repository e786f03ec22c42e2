"""How a conversation ends, and turns of the assistant that say nothing.

A cut stream leaves half an answer at the end of a client's history, or nothing but its reasoning. By the half answer
some clients mean the beginning of the next one (a prefill), others do not; and some models refuse it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock.messages.walking import with_messages
from penstock.writing import salvage

if TYPE_CHECKING:
    from penstock.diagnostics import Diagnostics
    from penstock.providers.thinking import Thinking

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
        return part.protocol == protocol or bool(salvage(part.data))
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
