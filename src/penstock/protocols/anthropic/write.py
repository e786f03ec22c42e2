"""Canonical requests → Anthropic Messages: the messages. What providers of it differ in is a field of `Quirks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq
from penstock.carrying import EMPTY, stowed
from penstock.protocols.anthropic.request_blocks import NAME
from penstock.protocols.anthropic.write_blocks import LACKS, LOSSES, Blocks, Quirks
from penstock.protocols.anthropic.write_settings import write_settings
from penstock.protocols.anthropic.write_tools import write_choice, write_tools
from penstock.writing import Draft, add, split

if TYPE_CHECKING:
    from penstock.pick import Object

__all__ = ["LACKS", "LOSSES", "NAME", "Quirks", "Writer", "write_request"]
REMINDER = "<system-reminder>\n{}\n</system-reminder>"


class Writer(Blocks):
    """One request being written. State: the user message that collects the results of one round."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._results: Object | None = None

    def write(self, request: rq.Request) -> Object:
        own, marks = self.own(request.extra)
        messages = stowed(request.messages, self.holds, self.carry, self.lose)
        first = _first(messages)
        body: Object = {"model": request.model} if request.model else {}
        system = self._system(messages[:first])
        if system:
            body["system"] = system
        made: list[Object] = []
        body["messages"] = made
        for message in messages[first:] if first else messages:
            if message.role == "tool":
                self._answers(message, made)
            else:
                self._message(message, made)
        write_tools(self, request.tools, body)
        write_choice(self, request, body)
        if request.stream:
            body["stream"] = True
        write_settings(self, request.settings, marks, body)
        if own:
            body.update(own)
        add(body, marks.get("also"))
        return body

    def _system(self, messages: list[rq.Message]) -> str | list[Object]:
        if not messages:
            return ""
        parts = [part for message in messages for part in message.parts]
        for message in messages:
            if message.name:
                self.lose("name")
        listed = any("listed" in self.own(message.extra)[1] for message in messages)
        return self.content(parts, listed=listed)

    def _answers(self, message: rq.Message, made: list[Object]) -> None:
        """All results of a round stand in one user message."""
        own = self.own(message.extra)[0] if message.extra else None
        results: Object | None = self._results
        if results is None or own:
            blocks: list[Object] = []
            self._results = results = {"role": "user", "content": blocks, **(own or {})}
            made.append(results)
        results["content"] += self.blocks(message.parts)

    def _message(self, message: rq.Message, made: list[Object]) -> None:
        results, self._results = self._results, None
        extra, role, parts = message.extra, message.role, message.parts
        if extra is None and not message.name and role != "system":
            content = self.content(parts) or self._silence(role)
            if content:
                made.append({"role": role, "content": content})
            return
        if message.name:
            self.lose("name")
        own, marks = self.own(extra)
        if results is not None and "joined" in marks:
            _join(results["content"], self.blocks(parts), marks.get("places"))
        elif role == "system" and self.quirks.mid_system == "user":
            self.lose("mid-system")
            reminded = [_reminder(part) for part in parts]
            made.append({"role": "user", "content": self.content(reminded), **own})
        else:
            self._said(message, own, marks, made)

    def _said(self, message: rq.Message, own: Object, marks: Object, made: list[Object]) -> None:
        content: Any = self.content(message.parts, listed="listed" in marks)
        if not message.parts and "also" in marks:
            content = marks["also"]["content"]
        elif not content and NAME not in (message.extra or ()):
            content = self._silence(message.role)
        if content or NAME in (message.extra or ()):
            made.append({"role": message.role, "content": content, **own})

    def _silence(self, role: str) -> str:
        """A message may not be empty here: only the user's keeps its place, because turns alternate around it."""
        if role == "user":
            self.carry("empty")
            return EMPTY
        self.lose("empty")
        return ""


def _first(messages: list[rq.Message]) -> int:
    """Where the conversation begins: behind the system messages that were not said inside of it."""
    for place, message in enumerate(messages):
        if message.role != "system" or "inside" in split(message.extra, NAME)[1]:
            return place
    return len(messages)


def _join(content: list[Object], others: list[Object], places: list[int] | None) -> None:
    """What stood beside results goes behind them, or to where it was."""
    if places is None or len(places) != len(others):
        content += others
        return
    for place, block in zip(places, others, strict=True):
        content.insert(place, block)


def _reminder(part: rq.AnyPart) -> rq.AnyPart:
    return replace(part, text=REMINDER.format(part.text)) if type(part) is rq.Text else part


def write_request(request: rq.Request, quirks: Quirks | None = None) -> Draft:
    """A request as the body of a Messages call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
