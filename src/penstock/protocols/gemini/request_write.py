"""Canonical requests → generateContent. Parts, tools and settings have files of their own.

What APIs of this protocol differ in is a field of `Quirks`. The model and whether to stream are said in the URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import request as rq
from penstock.carrying import EMPTY, Holds, input_of, stowed
from penstock.carrying.systems import said_by_user
from penstock.jsontext import plain_or_raw
from penstock.media import sniff
from penstock.protocols.gemini.decode_calls import METADATA_ONLY
from penstock.protocols.gemini.request_interactions import write_interaction
from penstock.protocols.gemini.request_settings import write_settings
from penstock.protocols.gemini.request_tools import write_choice, write_response, write_tools
from penstock.protocols.gemini.wire import NAME, SYSTEM_SEAL
from penstock.request_writer import (
    Losses,
    RequestDraft,
    add_missing,
    collect_text,
    describe_file,
    insert_lists,
    omit_with_loss,
    split_extra,
    write_foreign_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.lenient_fields import Object

__all__ = ["LACKS", "LOSSES", "Quirks", "Writer", "write_request"]


LOSSES: Losses = {
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "reasoning-state": "signed or encrypted reasoning of another protocol is sent as its words alone",
    "form": "that reasoning is a summary is not said",
    "traces": "a tool that ran and left nothing but traces is left out",
    "source": "a citation in an earlier answer is left out",
    "approval": "an approval is left out",
    "encrypted": "what only the provider that ran a tool can read is left out of its result",
    "cut-call": "a call that never became whole is left out",
    "file": "a file that only another provider has is told as a line of text: {}",
    "detail": "how closely an image should be looked at is not said",
    "order": "of a turn in which another provider ran tools, the calls of the client come last",
    "media": "the type of a file that does not tell it is guessed",
    "cache": "a cache point is left out: caching is automatic here, or a content of its own",
    "name": "the name of who speaks is left out",
    "empty": "an empty text, and a message with nothing in it, is left out",
    "system-join": "system messages at the beginning become one instruction",
    "tool": "a tool that another provider runs is left out",
    "namespace": "which group a tool is of is left out",
    "strict": "that a tool's input must follow its schema is not said",
    "format": "name, description and strictness of an answer's schema are left out",
    "effort": "an effort without a level here is sent as the nearest one, or as a budget",
    "budget": "a budget of reasoning tokens beside an effort is left out",
    "setting": "a setting without a word here is left out: {}",
}
LACKS: Losses = {  # what only some providers cannot, as their `Quirks` say
    "call-id": "ids of calls are left out: results answer calls by name and order",
    "mid-system": "a system message inside the conversation is said by the user, where parts have no metadata",
    "schema": "words of a schema that this API does not know are left out",
}
_TYPES = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif",
    "heic": "image/heic", "pdf": "application/pdf", "mp4": "video/mp4", "mp3": "audio/mpeg", "wav": "audio/wav",
}  # fmt: skip
_WEB = str.maketrans("+/", "-_")


class Quirks(msgspec.Struct, frozen=True):
    """What APIs of this protocol differ in."""

    ids: bool = True  # calls and results may carry an id
    schemas: Literal["json", "subset"] = "json"  # whole JSON Schemas are understood, or only a subset of OpenAPI
    result_files: bool = True  # files may stand in function responses
    metadata: bool = True  # parts may carry metadata of whoever sends them
    unsigned: str = ""  # the signature of a call whose own nobody knows, where the API insists on one


class PartWriter(RequestDraft):
    """Writes parts. State: the name of each call, its place, and which ids were made up."""

    protocol = NAME
    losses: ClassVar[Losses] = {**LOSSES, **LACKS}

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks
        self.names: dict[str, str] = {}
        self.places: dict[str, int] = {}
        self.minted: set[str] = set()

    def learn(self, messages: Iterable[rq.Message]) -> None:
        """Go through the calls, so that results know their names."""
        for message in messages:
            if message.role == "assistant":
                for part in message.parts:
                    if type(part) is rq.Call:
                        self.places[part.id] = len(self.places)
                        self.names[part.id] = part.name
                        if part.extra is not None and any(one.get("minted") for one in split_extra(part.extra, NAME)):
                            self.minted.add(part.id)

    def part(self, part: rq.AnyPart) -> list[Object]:
        """A part, as one or none."""
        if part.cache:
            self.report_loss("cache")
        return self.kinds[type(part)](self, part)

    def _text(self, part: rq.Text) -> list[Object]:
        if part.extra is None and part.text:
            return [{"text": part.text}]
        own, marks = self.split_extra(part.extra)
        if part.text or own or marks.get("empty"):
            return [{"text": part.text, **own}]
        self.report_loss("empty")  # an empty part is refused
        return []

    def _reasoning(self, part: rq.Reasoning) -> list[Object]:
        own, marks = self.split_extra(part.extra)
        if part.extra is not None and NAME not in part.extra:
            self.report_loss("reasoning-state")
        if part.form == "redacted":
            if not own:
                return []
            return [own] if marks.get("bare") else [{"text": "", **own}]
        if part.form != "full":
            self.report_loss("form")
        return [{"text": part.text, "thought": True, **own}] if part.text or own else []

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _call(self, call: rq.Call) -> list[Object]:
        own, marks = self.split_extra(call.extra)
        if call.by == "provider":
            return self._ran(call.id, call.json, own, "args")
        if call.cut:
            self.report_loss("cut-call")
            return []
        args, carrier = input_of(call)
        if carrier:
            self.report_carried(carrier)
        made: Object = {**self._id(call.id, call.id), "name": call.name, **own.get("functionCall", {})}
        if args or not marks.get("bare"):
            made["args"] = args
        around = {key: value for key, value in own.items() if key not in ("minted", "functionCall")}
        return [{"functionCall": made, **around}]

    def _id(self, id: str, call: str) -> Object:
        if not id or call in self.minted:
            return {}
        if not self.quirks.ids:
            self.report_loss("call-id")
            return {}
        return {"id": id}

    def _ran(self, id: str, json: str, own: Object, field: str) -> list[Object]:
        """What Google ran, in the part it came in."""
        kind = own.get("part")
        if kind in (None, METADATA_ONLY):
            self.report_loss("traces")
            return []
        given = plain_or_raw(json or "{}")
        if "toolType" not in own and not hasattr(given, "keys"):  # nothing that has fields of its own
            self.report_loss("traces")
            return []
        inner: Any = {"toolType": own["toolType"], field: given} if "toolType" in own else given
        around = {key: value for key, value in own.items() if key not in ("part", "toolType", "minted", "choice")}
        return [{kind: {**({} if own.get("minted") or not id else {"id": id}), **inner}, **around}]

    def _result(self, result: rq.Result) -> list[Object]:
        own, marks = self.split_extra(result.extra)
        if result.by == "provider":
            return self._ran(result.call, result.json, own, "response")
        minted = own.get("minted") or marks.get("minted")
        id = marks.get("id") or ("" if minted else result.call)  # noqa: A001 — as the part calls it
        name = result.name or self.names.get(result.call) or "tool"
        made: Object = {**self._id(id, "" if "id" in marks else result.call), "name": name}
        content = self._content(result.content)
        response = write_response(content, result.failed, marks)
        if response is not None:
            made["response"] = response
        files = [one for part in content if not isinstance(part, rq.Text | rq.Json) for one in self.part(part)]
        if files:
            made["parts"] = files
        made.update(own.get("functionResponse", {}))
        around = {key: value for key, value in own.items() if key not in ("minted", "functionResponse")}
        return [{"functionResponse": made, **around}]

    def _content(self, content: list[rq.ResultPart]) -> list[rq.ResultPart]:
        """What a response can hold."""
        kept: list[rq.ResultPart] = []
        for part in content:
            if isinstance(part, rq.Source):
                self.report_loss("source")
            elif isinstance(part, rq.Opaque) and part.protocol != NAME:
                self.report_loss("opaque")
                kept += [rq.Text(words) for words in (collect_text(part.data),) if words]
            elif isinstance(part, rq.File) and not part.url and not part.data:
                self.report_loss("file", part.media)
                kept.append(rq.Text(describe_file(part)))
            else:
                kept.append(part)
                if isinstance(part, rq.Text | rq.Json):
                    self._beside(part)
        return kept

    def _beside(self, part: rq.Text | rq.Json) -> None:
        """Report what a text inside a response cannot have."""
        self.split_extra(part.extra)
        if part.cache:
            self.report_loss("cache")

    # ── files and the rest ────────────────────────────────────────────────────────────────────────

    def _file(self, part: rq.File) -> list[Object]:
        self.report_image_detail(part)
        own, marks = self.split_extra(part.extra)
        if not part.url and not part.data:
            self.report_loss("file", part.media)
            return [{"text": describe_file(part)}]
        kind = "fileData" if part.url else "inlineData"
        named: Object = {"displayName": part.name} if part.name else {}
        media = {} if marks.get("untyped") else {"mimeType": self._media(part)}
        if part.url:
            made = {**media, "fileUri": part.url, **named, **own.get(kind, {})}
        else:
            data = part.data.translate(_WEB) if marks.get("web") else part.data
            made = {**media, "data": data, **named, **own.get(kind, {})}
        return [{kind: made, **{key: value for key, value in own.items() if key != kind}}]

    def _media(self, part: rq.File) -> str:
        """The type must be exact: by the bytes, by the address, else the usual one of its kind."""
        if not part.media.endswith("/*"):
            return part.media
        self.report_loss("media")
        ending = part.url.partition("?")[0].rpartition(".")[2].lower()
        kind = part.media.partition("/")[0]
        found = sniff(part.data) if part.data else _TYPES.get(ending, "")
        return found or {"image": "image/jpeg", "audio": "audio/mpeg", "video": "video/mp4"}.get(kind, "text/plain")

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text, rq.Reasoning: _reasoning, rq.Call: _call, rq.Result: _result, rq.File: _file,
        rq.Opaque: write_foreign_state(), rq.Source: omit_with_loss("source"), rq.Ask: omit_with_loss("approval"),
    }  # fmt: skip


class Writer(PartWriter):
    """One request being written. State besides the parts': the content that collects the results of one round."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self._round: list[tuple[str, Object]] | None = None
        self._round_marks: Object = {}  # of the last message with results

    def write(self, request: rq.Request) -> Object:
        own, marks = self.split_extra(request.extra)
        if "interaction" in marks:
            return write_interaction(request, self)
        messages = stowed(
            request.messages,
            Holds(NAME, refusals=False, result_files=self.quirks.result_files),
            self.report_carried,
            self.report_loss,
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
        add_missing(body, marks.get("unsaid"))
        return _wrapped(body, request.model, marks.get("outer"))

    def _put(self, body: Object, key: str, made: Object, own: Object) -> None:
        whole = {**own.get(key, {}), **made}
        if whole:
            body[key] = whole

    # ── contents ──────────────────────────────────────────────────────────────────────────────────

    def _system(self, messages: list[rq.Message]) -> Any:
        if len(messages) > 1:
            self.report_loss("system-join")
        own, marks = split_extra(messages[0].extra, NAME)
        parts = [made for message in messages for part in message.parts for made in self.part(part)]
        if marks.get("bare") and len(parts) == 1:
            return parts[0]["text"]
        role = {"role": marks["role"]} if "role" in marks else {}
        return {**role, "parts": parts[0] if marks.get("single") and len(parts) == 1 else parts, **own}

    def _contents(self, messages: Iterable[rq.Message]) -> list[Object]:
        made: list[Object] = []
        for message in messages:
            if message.name:
                self.report_loss("name")
            own, marks = self.split_extra(message.extra)
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
        insert_lists(parts, places, [self.part(part) for part in message.parts])
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
                self.report_loss("empty")
                return
            self.report_carried("empty")  # a user's keeps its place, because turns alternate around it
            parts = [{"text": EMPTY}]
        content: Object = {"role": _role(marks, role), "parts": _single(parts, marks), **own}
        if not content["role"]:
            del content["role"]
        made.append(content)

    def _reminded(self, parts: list[rq.AnyPart]) -> list[rq.AnyPart]:
        """What the system says inside the conversation; sealed, so that it can be told from what users write."""
        if self.quirks.metadata:
            self.report_carried("mid-system")
            return said_by_user(parts, SYSTEM_SEAL)
        self.report_loss("mid-system")
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


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """A request as the body of a generateContent call."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
