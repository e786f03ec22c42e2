"""What the assistant said and thought → items of type `message` and `reasoning`.

Parts that came out of one item go back into one. A text that other protocols said is a plain message of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import request as rq
from penstock.protocols.responses.request_content import CONTENT
from penstock.protocols.responses.request_said import NEXT
from penstock.protocols.responses.speech import NAME
from penstock.protocols.responses.write_content import Content, Quirks
from penstock.writing import add, salvage

if TYPE_CHECKING:
    from penstock.pick import Object

_ENTRIES = {"summary": ("summary", "summary_text"), "full": ("content", "reasoning_text")}


class Said(Content):
    """State: the items so far, and the one that further parts may still go into."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__(quirks)
        self.items: list[Object] = []
        self.texts: dict[int | None, Object] = {}  # what was said, by its place in the message; None: the last
        self._open: Object | None = None  # the message being spoken
        self._thought: Object | None = None  # the reasoning being written
        self._odd: Object = {}  # fields of it that are written as they were
        self.apart = False  # the next item begins another message of the assistant, right behind one

    def put(self, item: Object) -> None:
        """A whole item; nothing more goes into the one before."""
        self._open = self._thought = None
        self.apart = False
        self.items.append(item)

    def turn(self, *, apart: bool) -> None:
        """The assistant begins to speak; `apart` if it has spoken just before, in another message."""
        self.texts = {}
        self.apart = apart

    def mint(self, kind: str) -> str:
        """An id for an item that must have one: always, or where it must be seen that another message begins."""
        word = NEXT if self.apart else "_ps"
        self.apart = False
        return f"{kind}{word}{len(self.items)}"

    # ── texts ─────────────────────────────────────────────────────────────────────────────────────

    def say(self, part: rq.Text, place: int) -> None:
        """A text or a refusal."""
        own, marks = self.own(part.extra)
        field = "refusal" if part.refusal else "text"
        made: Object = {"type": field if part.refusal else marks.get("kind", "output_text"), field: part.text}
        if "head" in marks or "more" in marks:
            made.update(own)
            add(made, marks.get("also"))
        elif not part.refusal:
            made["annotations"] = []
            if not part.item:
                made["logprobs"] = []
        self.texts[place] = self.texts[None] = made
        self.hint(part, made, fits=False)
        if part.logprobs:
            self.lose("logprobs")
        self._spell(part, own, marks, [] if "blank" in marks else [made])

    def nothing(self, message: rq.Message) -> None:
        """A message in which the assistant said nothing."""
        marks = self.own(message.extra)[1]
        if "head" in marks:
            self._new(self._headed(rq.Text(item=marks.get("id", "")), marks["head"], []))
        else:
            self.put({"type": "message", "role": "assistant", "content": ""})

    def picture(self, part: rq.File, _: int) -> None:
        """A file in what the assistant says."""
        own, marks = self.own(part.extra)
        self._spell(part, own, marks, self.part(part))

    def _spell(self, part: rq.Text | rq.File, own: Object, marks: Object, made: list[Object]) -> None:
        """Content into the message that is open, or into a new one."""
        ours, item = NAME in (part.extra or ()), self._open
        if "head" in marks:
            self._new(self._headed(part, marks["head"], made))
        elif ours and item is not None and ("more" in marks or (part.item and part.item == item.get("id"))):
            item["content"] += made
        elif ours and part.item:  # out of a response
            about = {"phase": own["phase"]} if own.get("phase") else {}
            self._new(_whole(part.item, made, **about))
        elif type(part) is rq.Text and not part.refusal and not self.apart:
            self.put({"type": "message", "role": "assistant", "content": part.text})
        else:
            self._new(_whole(self.mint("msg"), made))

    def _headed(self, part: rq.Text | rq.File, head: Object, made: list[Object]) -> Object:
        item: Object = {} if "bare" in head else {"type": "message"}
        if part.item or "id" in head:
            item["id"] = part.item or head["id"]
        item["role"] = "assistant"
        if "status" in head:
            item["status"] = head["status"]
        string = head.get("shape") == "string" and type(part) is rq.Text
        item["content"] = part.text if string and type(part) is rq.Text else made
        item.update(head.get("fields", {}))
        add(item, head.get("also"))
        return item

    def _new(self, item: Object) -> None:
        self.put(item)
        self._open = item if isinstance(item["content"], list) else None

    def cite(self, part: rq.Source, _: int) -> None:
        """A citation, in the text it belongs to."""
        own, text = self.own(part.extra)[0], self.texts.get(part.of) or self.texts.get(None)
        if text is None or "annotation" not in own or "text" not in text:
            self.lose("source")
        else:
            text["annotations"] = [*text.get("annotations", ()), own["annotation"]]

    def state(self, part: rq.Opaque, _: int) -> None:
        """What only this protocol understands: content, or an item."""
        if part.protocol != NAME:
            self.lose("opaque")
            if words := salvage(part.data):
                self.put({"type": "message", "role": "assistant", "content": words})
        elif not part.kind.startswith(CONTENT):
            self.put(part.data)
        elif self._open is not None:
            self._open["content"].append(part.data)
        else:
            self._new(_whole(self.mint("msg"), [part.data]))

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def think(self, part: rq.Reasoning, _: int) -> None:
        """Reasoning with what makes it acceptable to a provider of this protocol, or without."""
        own, marks = self.own(part.extra)
        if NAME not in (part.extra or ()):
            self._unsealed(part)
            return
        item = self._thought
        same = item is not None and "head" not in marks and bool(part.item) and part.item == item.get("id")
        if item is None or not (same or "more" in marks):
            item = self._reasoning(part, marks.get("head", {}))
            if "id" not in item and "head" not in marks:
                item["id"] = self.mint("rs")  # another protocol's carrier of this one's state: an item must have an id
        form = part.form
        if form == "full" and not self.quirks.words:
            self.lose("form")
            form = "summary"
        key, kind = _ENTRIES.get(form, ("", ""))
        if key and key not in self._odd:
            item[key] = [*(item.get(key) or ()), {"type": kind, "text": part.text}]
        item.update({key: value for key, value in own.items() if key != "id"})

    def _reasoning(self, part: rq.Reasoning, head: Object) -> Object:
        item: Object = {"type": "reasoning"}
        if part.item:
            item["id"] = part.item
        if "bare" not in head:
            item["summary"] = []
        if "status" in head:
            item["status"] = head["status"]
        add(item, head.get("also"))
        self._odd = head.get("odd", {})
        item.update(self._odd)
        self.put(item)
        self._thought = item
        return item

    def _unsealed(self, part: rq.Reasoning) -> None:
        """Reasoning that no provider of this protocol knows."""
        way = self.quirks.reasoning
        if way == "drop" or not part.text:
            self.lose("reasoning")
        elif way == "text":
            self.put({"type": "message", "role": "assistant", "content": part.text})
        else:
            item: Object = {"type": "reasoning", "id": self.mint("rs"), "summary": []}
            kind = "summary_text" if way == "summary" else "reasoning_text"
            self.put({**item, way: [{"type": kind, "text": part.text}]})


def _whole(id: str, content: list[Object], **about: str) -> Object:
    """A message with all that is asked for."""
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content, **about}
