"""Canonical requests → generateContent. Parts, tools and settings have files of their own.

What APIs of this protocol differ in is a field of `Quirks`. The model and whether to stream are said in the URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import request as rq
from penstock.carrying import EMPTY, Holds, stowed
from penstock.carrying.systems import said_by_user
from penstock.protocols.gemini.own import NAME, SEAL
from penstock.protocols.gemini.write_interactions import write_interaction
from penstock.protocols.gemini.write_parts import LACKS, LOSSES, PartWriter, Quirks
from penstock.protocols.gemini.write_settings import write_settings
from penstock.protocols.gemini.write_tools import write_choice, write_tools
from penstock.writing import Draft, add, insert_at, split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.pick import Object

__all__ = ["LACKS", "LOSSES", "Quirks", "Writer", "write_request"]


class Writer(PartWriter):
    """One request being written. State besides the parts': the content that collects the results of one round."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._round: list[tuple[str, Object]] | None = None
        self._round_marks: Object = {}  # of the last message with results

    def write(self, request: rq.Request) -> Object:
        own, marks = self.own(request.extra)
        if "interaction" in marks:
            return write_interaction(request, self)
        messages = stowed(
            request.messages, Holds(NAME, refusals=False, result_files=self.quirks.result_files), self.carry, self.lose
        )
        first = next((place for place, one in enumerate(messages) if one.role != "system"), len(messages))
        self.learn(messages)
        contents = self._contents(messages[first:])
        body: Object = {"contents": contents[0] if marks.get("single") and len(contents) == 1 else contents}
        if marks.get("model"):
            body["model"] = request.model
        if first:
            body["systemInstruction"] = self._system(messages[:first])
        tools = write_tools(request.tools, self)
        if tools:
            body["tools"] = tools
        choice: Object = {} if request.choice is None else {"functionCallingConfig": write_choice(request.choice, self)}
        self._put(body, "toolConfig", choice, own)
        self._put(body, "generationConfig", write_settings(request.settings, own, marks, self), own)
        body.update({key: value for key, value in own.items() if key not in ("toolConfig", "generationConfig")})
        add(body, marks.get("unsaid"))
        return _wrapped(body, request.model, marks.get("outer"))

    def _put(self, body: Object, key: str, made: Object, own: Object) -> None:
        whole = {**own.get(key, {}), **made}
        if whole:
            body[key] = whole

    # ── contents ──────────────────────────────────────────────────────────────────────────────────

    def _system(self, messages: list[rq.Message]) -> Any:
        if len(messages) > 1:
            self.lose("system-join")
        own, marks = split(messages[0].extra, NAME)
        parts = [made for message in messages for part in message.parts for made in self.part(part)]
        if marks.get("bare") and len(parts) == 1:
            return parts[0]["text"]
        role = {"role": marks["role"]} if "role" in marks else {}
        return {**role, "parts": parts[0] if marks.get("single") and len(parts) == 1 else parts, **own}

    def _contents(self, messages: Iterable[rq.Message]) -> list[Object]:
        made: list[Object] = []
        for message in messages:
            if message.name:
                self.lose("name")
            own, marks = self.own(message.extra)
            if message.role == "tool":
                self._results(message, own, marks, made)
            elif marks.get("joined") and self._round is not None:
                self._join(message, marks, made)
            else:
                self._message(message, own, marks, made)
        self._close_round(made)
        if self.quirks.unsigned:
            self._sign(made)
        return made

    def _sign(self, contents: list[Object]) -> None:
        """Sign the first call of each step of the current turn, if its signature is not known. Others need none.

        The turn begins with the last thing that the user says: https://ai.google.dev/gemini-api/docs/thought-signatures
        """
        for content in reversed(contents):
            parts = _listed(content["parts"])
            if content.get("role") != "model":
                if not any("functionResponse" in part for part in parts):
                    return
                continue
            call = next((part for part in parts if "functionCall" in part), None)
            if call is not None and "thoughtSignature" not in call:
                call["thoughtSignature"] = self.quirks.unsigned
                why = f"{NAME}: a call whose thought signature is not known is sent with a word that says so"
                self.diagnostics.add("call-unsigned", why)

    def _results(self, message: rq.Message, own: Object, marks: Object, made: list[Object]) -> None:
        """All results of a round must stand in one content, right behind the calls."""
        if self._round is None or marks.get("apart"):
            self._close_round(made)
            self._round = []
            made.append({"role": _role(marks, "user"), "parts": [], **own})
        for part in message.parts:
            call = part.call if type(part) is rq.Result else ""
            self._round += [(call, one) for one in self.part(part)]
        self._round_marks = marks

    def _close_round(self, made: list[Object]) -> list[Object]:
        """Write the results of the open round into its content, once for all of them."""
        if self._round is None:
            return []
        if not self.quirks.ids:
            self._round.sort(key=lambda row: self.places.get(row[0], len(self.places)))
        parts = [one for _, one in self._round]
        made[-1]["parts"] = _single(parts, self._round_marks)
        self._round = None
        return parts

    def _join(self, message: rq.Message, marks: Object, made: list[Object]) -> None:
        parts = self._close_round(made)
        places = marks.get("places") or range(len(parts), len(parts) + len(message.parts))
        insert_at(parts, places, [self.part(part) for part in message.parts])
        made[-1]["parts"] = _single(parts, self._round_marks)

    def _message(self, message: rq.Message, own: Object, marks: Object, made: list[Object]) -> None:
        self._close_round(made)
        said = message.parts
        if message.role == "system":
            said = self._reminded(said)
        parts = [one for part in said for one in self.part(part)]
        role = "model" if message.role == "assistant" else "user"
        if not parts:
            if message.role != "user":
                self.lose("empty")
                return
            self.carry("empty")  # a user's keeps its place, because turns alternate around it
            parts = [{"text": EMPTY}]
        content: Object = {"role": _role(marks, role), "parts": _single(parts, marks), **own}
        if not content["role"]:
            del content["role"]
        made.append(content)

    def _reminded(self, parts: list[rq.AnyPart]) -> list[rq.AnyPart]:
        """What the system says inside the conversation; sealed, so that it can be told from what users write."""
        if self.quirks.metadata:
            self.carry("mid-system")
            return said_by_user(parts, SEAL)
        self.lose("mid-system")
        return said_by_user(parts)


def _role(marks: Object, usual: str) -> str:
    """The role as it was spelled: nothing, where nothing was said."""
    role: str = marks.get("role", usual)
    return "" if role == "none" else role


def _listed(parts: Any) -> list[Object]:
    return [parts] if isinstance(parts, dict) else parts


def _single(parts: list[Object], marks: Object) -> Any:
    return parts[0] if marks.get("single") and len(parts) == 1 else parts


def _wrapped(body: Object, model: str, outer: Object | None) -> Object:
    """As Code Assist has it, where it was so."""
    if not outer:
        return body
    return {**outer, **({"model": model} if "model" in outer else {}), "request": body}


def write_request(request: rq.Request, quirks: Quirks | None = None) -> Draft:
    """A request as the body of a generateContent call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
