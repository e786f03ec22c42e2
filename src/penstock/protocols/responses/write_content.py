"""Canonical parts → Responses content; what providers differ in, and the table of what has no place here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import request as rq
from penstock.carrying import Holds
from penstock.media import sniff
from penstock.protocols.responses.request_content import CONTENT, HINT, media_of, nameless
from penstock.protocols.responses.speech import NAME
from penstock.writing import Draft, Losses, add, salvage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.pick import Object

LOSSES: Losses = {
    "approval": "an approval is left out",
    "budget": "a budget of reasoning tokens is sent as an effort",
    "cache": "a cache point is left out",
    "encrypted": "what only the provider that ran a tool can read is left out of its result",
    "cut-call": "a call that never became whole is left out",
    "file-name": "the name of an image is left out",
    "format": "a schema without a name is called `answer`",
    "json-result": "a JSON value in a tool result is sent as its text",
    "logprobs": "log probabilities of an earlier answer are left out",
    "media": "the type of a document by its address is left out",
    "metadata": "metadata that are no strings are sent as their JSON",
    "name": "the name of whoever speaks is left out",
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "order": "of a turn in which another provider ran tools, the calls of the client come last",
    "provider-call": "what a tool gave that the provider ran is left out if it is not known how this protocol said it",
    "reasoning": "reasoning that this provider did not seal is left out",
    "setting": "a setting without a word here is left out: {}",
    "source": "a citation in an earlier answer is left out",
    "tool": "a tool that another provider runs is left out: {}",
}
LACKS: Losses = {  # what only some providers cannot, as their `Quirks` say
    "any-json": "an answer of any JSON cannot be asked for and is not",
    "effort": "an effort without a word here is sent as the nearest: {}",
    "form": "the words of reasoning are sent as its summary",
    "max-output": "an output limit that is too low here is raised: {}",
}
HOLDS = Holds(NAME, failed=False, assistant_files=False)


class Quirks(msgspec.Struct, frozen=True):
    """What providers of this protocol differ in."""

    instructions: bool = True  # the system prompt goes there, and not into the input
    system: Literal["system", "developer"] = "system"  # the role of system messages in the input
    reasoning: Literal["drop", "summary", "content", "text"] = "drop"  # what becomes of reasoning without its seal
    sealed: bool = False  # ask for reasoning that can be sent back without being stored
    cache: bool = False  # cache points are understood
    efforts: tuple[str, ...] = ()  # the efforts that there are, lowest first; none named: all
    min_output: int = 0  # the lowest output limit that is taken
    any_json: bool = True  # an answer of any JSON can be asked for
    words: bool = True  # what was thought may stand in its item, beside the summary
    more: tuple[str, ...] = ()  # which of the settings that only some have: frequency_penalty, seed, stop …


class Content(Draft):
    """Content being written. State: whether the request was one of this protocol when it was read."""

    protocol = NAME
    losses: ClassVar[Losses] = {**LOSSES, **LACKS}

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self.quirks = quirks
        self.native = False

    def content(self, parts: Sequence[rq.AnyPart | rq.ResultPart], *, listed: bool) -> str | list[Object]:
        """A string where that says it all."""
        if not listed and not parts:
            return ""
        only = parts[0] if len(parts) == 1 and not listed else None
        if only is not None and not only.cache:
            if type(only) is rq.Text and not only.refusal and NAME not in (only.extra or ()):
                self.own(only.extra)
                return only.text
            if type(only) is rq.Json:
                self.lose("json-result")
                return only.json
        return self.parts(parts)

    def parts(self, parts: Iterable[rq.AnyPart | rq.ResultPart]) -> list[Object]:
        """A list of content parts."""
        return [made for part in parts for made in self.part(part)]

    def part(self, part: Any) -> list[Object]:
        """A part as what it is here: mostly one, sometimes none."""
        made = self.kinds[type(part)](self, part)
        if part.cache and made and type(part) is not rq.Opaque:
            self.hint(part, made[-1])
        return made

    def hint(self, part: rq.Part | rq.Tool, made: Object, *, fits: bool = True) -> None:
        """A cache point, if it is understood and there is a place for one."""
        if not part.cache or HINT in made:
            return
        if self.quirks.cache and fits:
            made[HINT] = {"mode": "explicit"}
        else:
            self.lose("cache")

    def _text(self, part: rq.Text) -> list[Object]:
        if part.extra is None:
            return [{"type": "input_text", "text": part.text}]
        own, marks = self.own(part.extra)
        if part.refusal:
            made: Object = {"type": "refusal", "refusal": part.text, **own}
        else:
            made = {"type": marks.get("kind", "input_text"), "text": part.text, **own}
        add(made, marks.get("also"))
        return [made]

    def _json(self, part: rq.Json) -> list[Object]:
        self.lose("json-result")
        return [{"type": "input_text", "text": part.json}]

    def _opaque(self, part: rq.Opaque) -> list[Object]:
        if part.protocol == NAME and part.kind.startswith(CONTENT):
            return [part.data]
        self.lose("opaque")
        words = salvage(part.data)
        return [{"type": "input_text", "text": words}] if words else []

    def _source(self, _: rq.Source) -> list[Object]:
        self.lose("source")
        return []

    def _misplaced(self, part: Any) -> list[Object]:
        """A part that no message of this role may hold: told in words."""
        self.lose("opaque")
        words = salvage(msgspec.to_builtins(part))
        return [{"type": "input_text", "text": words}] if words else []

    # ── files ─────────────────────────────────────────────────────────────────────────────────────

    def _file(self, part: rq.File) -> list[Object]:
        own, marks = self.own(part.extra)
        kind = marks.get("kind") or ("input_image" if part.media.startswith("image/") else "input_file")
        made: Object = {"type": kind}
        if kind == "input_audio":
            made[kind] = {"data": part.data, **marks.get("audio", {})}
        elif kind == "input_image":
            self._image(part, marks, made)
        else:
            self._document(part, marks, made)
        made.update(own)
        add(made, marks.get("also"))
        return [made]

    def _image(self, part: rq.File, marks: Object, made: Object) -> None:
        address = marks.get("url") or part.url or _inline(part)
        if address:
            made["image_url"] = address
        if part.id:
            made["file_id"] = part.id
        if part.name:
            self.lose("file-name")
        if (part.detail or not self.native) and "as_it_was" not in marks:
            made["detail"] = part.detail or "auto"
        elif part.detail and "detail" not in marks["as_it_was"]["image_url"]:
            made["detail"] = part.detail
        made.update(marks.get("as_it_was", {}))

    def _document(self, part: rq.File, marks: Object, made: Object) -> None:
        if part.data:
            made["file_data"] = part.data if "bare" in marks else marks.get("url") or _inline(part)
        if part.url:
            made["file_url"] = part.url
            if media_of(part.name or part.url) != part.media:
                self.lose("media")
        if part.id:
            made["file_id"] = part.id
        if part.name or (part.data and ("kind" not in marks or "unnamed" in marks)):
            made["filename"] = part.name or nameless(part.media)

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _text, rq.Json: _json, rq.File: _file, rq.Opaque: _opaque, rq.Source: _source,
        rq.Ask: _misplaced, rq.Reasoning: _misplaced, rq.Call: _misplaced, rq.Result: _misplaced,
    }  # fmt: skip


def _inline(part: rq.File) -> str:
    if not part.data:
        return ""
    media = part.media if not part.media.endswith("/*") else sniff(part.data) or "image/png"
    return f"data:{media};base64,{part.data}"
