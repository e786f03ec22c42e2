"""Canonical requests → Converse. The model is named in the URL; what models differ in is a field of `Quirks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import request as rq
from penstock.carrying import EMPTY, schema_of, stowed
from penstock.carrying.systems import said_by_user
from penstock.protocols.bedrock.write_blocks import LOSSES, Blocks, Quirks, point
from penstock.protocols.bedrock.write_settings import write_settings
from penstock.writing import Draft, add, insert_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.pick import Object

__all__ = ["LOSSES", "Quirks", "Writer", "write_request"]
_QUIET = frozenset({("tool", "tool"), ("tool", "user"), ("tool", "system"), ("user", "system"), ("system", "user")})

_SILENCE: Object = {"text": EMPTY}


class Writer(Blocks):
    """One request being written. State: who spoke last, because nobody may speak twice in a row.

    `_said` counts the blocks of the last message that are not results of tools.
    """

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._last = ""
        self._said = 0

    def write(self, request: rq.Request) -> Object:
        own, marks = self.own(request.extra)
        messages = stowed(request.messages, self.holds, self.carry, self.lose)
        first = next((place for place, one in enumerate(messages) if one.role != "system"), len(messages))
        body: Object = {"modelId": request.model} if marks.get("model") else {}
        body["messages"] = self._messages(messages[first:])
        if first:
            body["system"] = self._system(messages[:first])
        config = self._tools(request)
        config.update(own.get("toolConfig", {}))
        if config:
            body["toolConfig"] = config
        write_settings(request.settings, marks, self, body, request.model)
        body.update({key: value for key, value in own.items() if key != "toolConfig"})
        add(body, marks.get("also"))
        return body

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _system(self, messages: list[rq.Message]) -> list[Object]:
        if len(messages) > 1:
            self.lose("system-join")
        return self.blocks([part for message in messages for part in message.parts])

    def _messages(self, messages: Iterable[rq.Message]) -> list[Object]:
        made: list[Object] = []
        for message in messages:
            own, marks = self.own(message.extra)
            if message.name:
                self.lose("name")
            parts = message.parts
            if message.role == "system":
                self.lose("mid-system")
                parts = said_by_user(parts)
            blocks = self.blocks(parts)
            if not blocks and message.role == "user" and self._may_be_silent(made):
                self.carry("empty")  # a user's keeps its place, because turns alternate around it
                blocks = [_SILENCE]
            if blocks:
                self._say(message.role, blocks, {**own}, marks.get("places"), made)
            else:
                self.lose("empty")
        return made

    def _say(self, role: str, blocks: list[Object], own: Object, places: list[int] | None, made: list[Object]) -> None:
        """Another message, or more of the last one."""
        speaker = "assistant" if role == "assistant" else "user"
        if made and made[-1]["role"] == speaker:
            if (self._last, role) not in _QUIET:
                self.lose("merge")
            content: list[Object] = made[-1]["content"]
            if content[-1] == _SILENCE:
                content.pop()
                self._said -= 1
            if places is not None and self._last == "tool" and len(places) == len(blocks):
                insert_at(content, places, [[block] for block in blocks])
            else:
                content += blocks
        else:
            self._said = 0
            made.append({"role": speaker, "content": blocks, **own})
        self._said += sum("toolResult" not in block for block in blocks)
        self._last = role

    def _may_be_silent(self, made: list[Object]) -> bool:
        """Whether a user who says nothing has a place of their own: not where they have spoken already."""
        return not made or made[-1]["role"] == "assistant" or not self._said

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _tools(self, request: rq.Request) -> Object:
        choice = request.choice
        if choice is not None and choice.mode == "none":
            self.lose("no-tools")
            if not any(type(part) is rq.Call for message in request.messages for part in message.parts):
                return {}
        made: list[Object] = []
        for tool in request.tools:
            made += self._tool(tool)
        config: Object = {"tools": made} if made else {}
        if choice is not None and choice.mode != "none":
            config["toolChoice"] = self._choice(choice)
        return config

    def _tool(self, tool: rq.Tool) -> list[Object]:
        own, marks = self.own(tool.extra)
        if "tool" in own:
            made: Object = own["tool"]
        elif tool.kind in ("provider", "unknown"):
            self.lose("tool", tool.name)
            if tool.cache:
                self.lose("cache")
            return []
        else:
            more = {key: value for key, value in own.items() if key != "beside"}
            made = {"toolSpec": {**self._function(tool, marks), **more}, **own.get("beside", {})}
        return [made, point(tool.cache, marks)] if tool.cache else [made]

    def _function(self, tool: rq.Tool, marks: Object) -> Object:
        if tool.namespace:
            self.lose("namespace")
        made: Object = {"name": tool.name}
        if tool.description or marks.get("empty"):
            made["description"] = tool.description
        schema: Object | None = tool.schema
        if tool.kind == "custom":
            self.carry("free-text")
            schema = schema_of(tool)
        if schema is None:
            schema = {"type": "object", "properties": {}}
        made["inputSchema"] = {"json": schema if "type" in schema else {"type": "object", **schema}}
        if tool.strict is not None:
            made["strict"] = tool.strict
        return made

    def _choice(self, choice: rq.ToolChoice) -> Object:
        own, _ = self.own(choice.extra)
        if "choice" in own:
            made: Object = own["choice"]
            return made
        if choice.mode == "tool":
            return {"tool": {"name": choice.names[0]}}
        if choice.names:
            self.lose("allowed")
        return {"auto" if choice.mode == "auto" else "any": {}}


def write_request(request: rq.Request, quirks: Quirks | None = None) -> Draft:
    """A request as the body of a Converse call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
