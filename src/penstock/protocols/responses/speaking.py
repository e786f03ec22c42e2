"""What an encoder says: messages with their citations, and reasoning.

Text parts that follow each other are one message, unless they come from different items. A citation goes to its text
while the message is unfinished; one that comes before all text waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import events as ev
from penstock import pick
from penstock.codec import Encoder
from penstock.frame_templates import NO_TEMPLATE
from penstock.protocols.responses.output import FORMS, NumberedTemplate, Output, Voice
from penstock.protocols.responses.resource import token_logprobs
from penstock.protocols.responses.speech import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra

_LONGEST = 48  # of a response's id in the ids of its items: those may not be longer than 64


class Speaking(Encoder):
    """State: the output so far, the voices of parts, citations that wait for text."""

    def __init__(self, reasoning: str) -> None:
        super().__init__()
        self._full = FORMS[reasoning]
        self._reset("")

    def _reset(self, id: str) -> None:
        self._output = Output(id.removeprefix("resp_")[-_LONGEST:], self.out)
        self._voices: dict[int, Voice] = {}
        self._said: Voice | None = None  # the last text
        self.template = NO_TEMPLATE
        self._sources: list[ev.Source] = []

    def _own(self, extra: Extra | None) -> dict[str, Any]:
        return (extra or {}).get(NAME, {})

    def _name(self, prefix: str, own: dict[str, Any]) -> str:
        """The id that an item had, else one that is made for it."""
        wish = pick.text(own, "id")
        name = self._output.name(prefix, wish)
        if wish and name != wish:
            self.lose("same-id")
        return name

    def _foreign(self, extra: Extra | None) -> None:
        if extra and NAME not in extra:
            self.lose("text-state")

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _speak(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if event.choice:
            self.lose("choice")
            return
        own = self._own(event.extra)
        self._foreign(event.extra)
        group = pick.text(own, "id") or event.item
        entry = self._output.joinable("message", group)
        if entry is None:
            item: dict[str, Any] = {
                "id": self._name("msg", own), "type": "message", "status": "in_progress",
                "role": "assistant", "content": [], **({"phase": own["phase"]} if own.get("phase") else {}),
            }  # fmt: skip
            entry = self._output.add(item, group)
        form = FORMS["text" if type(event) is ev.TextStart else "refusal"]
        voice = self._voices[event.index] = self._output.speak(entry, form)
        if form is FORMS["text"]:
            self._said = voice
            sources, self._sources = self._sources, []
            for source in sources:
                self._source(source)

    def _text(self, event: ev.TextDelta) -> None:
        voice = self._voices.get(event.index)
        if voice is None:
            return
        if event.logprobs is not None:
            self._likely(voice, event)
            return
        self._say(voice, event)

    def _say(self, voice: Voice, event: ev.TextDelta | ev.RefusalDelta | ev.ReasoningDelta) -> None:
        self.template = NumberedTemplate(event, voice.name, voice.head, self._output, voice.pieces.append)
        self.out.append(self.template.frame(event.text))

    def _likely(self, voice: Voice, event: ev.TextDelta) -> None:
        logprobs = token_logprobs(event.logprobs)
        if event.logprobs != {"content": logprobs}:
            self.lose("logprobs")
        voice.pieces.append(event.text)
        voice.part["logprobs"] += logprobs
        self._output.send(voice.form.delta, **voice.where, delta=event.text, logprobs=logprobs)

    def _delta(self, event: ev.RefusalDelta | ev.ReasoningDelta) -> None:
        voice = self._voices.get(event.index)
        if voice is not None:
            self._say(voice, event)

    def _quiet(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        voice = self._voices.get(event.index)
        if voice is not None and not event.broken:
            self._output.ended(voice)
            self._foreign(event.extra)

    def _source(self, event: ev.Source) -> None:
        voice = self._cited(event)
        if voice is None:
            return
        own = pick.table(self._own(event.extra), "annotation")
        if not own and not event.url:
            self.lose("source")
            return
        if not own and event.span is None and event.of is not None:
            self.lose("span")
        first, last = event.span or (0, 0 if own or event.of is None else voice.length)
        plain = {
            "type": "url_citation",
            "url": event.url,
            "title": event.title,
            "start_index": first,
            "end_index": last,
        }
        annotation = {**plain, **own} if own.get("type", "url_citation") == "url_citation" else own
        annotations: list[Any] = voice.part["annotations"]
        annotations.append(annotation)
        self._output.send(
            "response.output_text.annotation.added", **voice.where, annotation_index=len(annotations) - 1,
            annotation=annotation,
        )  # fmt: skip

    def _cited(self, event: ev.Source) -> Voice | None:
        """The text that a citation belongs to; one that comes before all text waits for it."""
        voice = None if event.of is None else self._voices.get(event.of)
        if voice is None or voice.form is not FORMS["text"]:
            voice = self._said
        if voice is None:
            self._sources.append(event)
        elif voice.closed:
            self.lose("source-outside-text")
            return None
        return voice

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def _think(self, event: ev.ReasoningStart) -> None:
        if event.choice:
            self.lose("choice")
        elif event.form != "redacted":
            own = self._own(event.extra)
            group = pick.text(own, "id")
            entry = self._output.joinable("reasoning", group) if group else None
            entry = entry or self._output.add(self._reasoning(own), group)
            form = FORMS["summary"] if event.form == "summary" else self._full
            self._voices[event.index] = self._output.speak(entry, form)

    def _reasoning(self, own: dict[str, Any]) -> dict[str, Any]:
        content = {} if self._full is FORMS["summary"] else {"content": list[Any]()}
        return {"id": self._name("rs", own), "type": "reasoning", "summary": [], **content}

    def _thought(self, event: ev.ReasoningEnd) -> None:
        if event.broken:
            return
        own, voice = self._own(event.extra), self._voices.get(event.index)
        kept = {key: value for key, value in own.items() if key not in ("id", "phase")}
        if event.extra and (not own or event.extra.keys() != {NAME}):
            self.lose("opaque")
        if voice is not None:
            voice.entry.item.update(kept)
            self._output.ended(voice)
        elif own:
            entry = self._output.joinable("reasoning", pick.text(own, "id"))
            if entry is None:
                self._output.end(self._output.add(self._reasoning(own)), **kept)
            else:
                entry.item.update(kept)

    speaking: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.TextStart: _speak, ev.TextDelta: _text, ev.TextEnd: _quiet,
        ev.RefusalStart: _speak, ev.RefusalDelta: _delta, ev.RefusalEnd: _quiet,
        ev.ReasoningStart: _think, ev.ReasoningDelta: _delta, ev.ReasoningEnd: _thought,
        ev.Source: _source,
    }  # fmt: skip
