"""Canonical parts → parts of a content. `request_parts.py` is the way back; `write.py` puts them into contents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import request as rq
from penstock.carrying import input_of
from penstock.jsontext import plain_or_raw
from penstock.media import sniff
from penstock.protocols.gemini.calls import TRACES
from penstock.protocols.gemini.own import NAME
from penstock.protocols.gemini.responses import write_response
from penstock.writing import Draft, Losses, foreign_state, omitted, salvage, split, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.pick import Object

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


class PartWriter(Draft):
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
                        if part.extra is not None and any(one.get("minted") for one in split(part.extra, NAME)):
                            self.minted.add(part.id)

    def part(self, part: rq.AnyPart) -> list[Object]:
        """A part, as one or none."""
        if part.cache:
            self.lose("cache")
        return self.kinds[type(part)](self, part)

    def _text(self, part: rq.Text) -> list[Object]:
        if part.extra is None and part.text:
            return [{"text": part.text}]
        own, marks = self.own(part.extra)
        if part.text or own or marks.get("empty"):
            return [{"text": part.text, **own}]
        self.lose("empty")  # an empty part is refused
        return []

    def _reasoning(self, part: rq.Reasoning) -> list[Object]:
        own, marks = self.own(part.extra)
        if part.extra is not None and NAME not in part.extra:
            self.lose("reasoning-state")
        if part.form == "redacted":
            if not own:
                return []
            return [own] if marks.get("bare") else [{"text": "", **own}]
        if part.form != "full":
            self.lose("form")
        return [{"text": part.text, "thought": True, **own}] if part.text or own else []

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _call(self, call: rq.Call) -> list[Object]:
        own, marks = self.own(call.extra)
        if call.by == "provider":
            return self._ran(call.id, call.json, own, "args")
        if call.cut:
            self.lose("cut-call")
            return []
        args, carrier = input_of(call)
        if carrier:
            self.carry(carrier)
        made: Object = {**self._id(call.id, call.id), "name": call.name, **own.get("functionCall", {})}
        if args or not marks.get("bare"):
            made["args"] = args
        around = {key: value for key, value in own.items() if key not in ("minted", "functionCall")}
        return [{"functionCall": made, **around}]

    def _id(self, id: str, call: str) -> Object:
        if not id or call in self.minted:
            return {}
        if not self.quirks.ids:
            self.lose("call-id")
            return {}
        return {"id": id}

    def _ran(self, id: str, json: str, own: Object, field: str) -> list[Object]:
        """What Google ran, in the part it came in."""
        kind = own.get("part")
        if kind in (None, TRACES):
            self.lose("traces")
            return []
        given = plain_or_raw(json or "{}")
        if "toolType" not in own and not hasattr(given, "keys"):  # nothing that has fields of its own
            self.lose("traces")
            return []
        inner: Any = {"toolType": own["toolType"], field: given} if "toolType" in own else given
        around = {key: value for key, value in own.items() if key not in ("part", "toolType", "minted", "choice")}
        return [{kind: {**({} if own.get("minted") or not id else {"id": id}), **inner}, **around}]

    def _result(self, result: rq.Result) -> list[Object]:
        own, marks = self.own(result.extra)
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
                self.lose("source")
            elif isinstance(part, rq.Opaque) and part.protocol != NAME:
                self.lose("opaque")
                kept += [rq.Text(words) for words in (salvage(part.data),) if words]
            elif isinstance(part, rq.File) and not part.url and not part.data:
                self.lose("file", part.media)
                kept.append(rq.Text(told(part)))
            else:
                kept.append(part)
                if isinstance(part, rq.Text | rq.Json):
                    self._beside(part)
        return kept

    def _beside(self, part: rq.Text | rq.Json) -> None:
        """Report what a text inside a response cannot have."""
        self.own(part.extra)
        if part.cache:
            self.lose("cache")

    # ── files and the rest ────────────────────────────────────────────────────────────────────────

    def _file(self, part: rq.File) -> list[Object]:
        self.glance(part)
        own, marks = self.own(part.extra)
        if not part.url and not part.data:
            self.lose("file", part.media)
            return [{"text": told(part)}]
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
        self.lose("media")
        ending = part.url.partition("?")[0].rpartition(".")[2].lower()
        kind = part.media.partition("/")[0]
        found = sniff(part.data) if part.data else _TYPES.get(ending, "")
        return found or {"image": "image/jpeg", "audio": "audio/mpeg", "video": "video/mp4"}.get(kind, "text/plain")

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text, rq.Reasoning: _reasoning, rq.Call: _call, rq.Result: _result, rq.File: _file,
        rq.Opaque: foreign_state(), rq.Source: omitted("source"), rq.Ask: omitted("approval"),
    }  # fmt: skip
