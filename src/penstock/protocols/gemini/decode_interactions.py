"""Gemini Interactions → events: steps that open and close by index, and an end mark that brings usage and status.

Thoughts are summaries with a signature, often the signature alone. Steps `…_call` and `…_result` are tools that the
provider ran; only `function_call` is the client's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import events as ev
from penstock.faults import kind_of
from penstock.jsontext import as_json
from penstock.protocols.gemini import wire
from penstock.protocols.gemini.decode_metadata import Answer, fault, total
from penstock.protocols.gemini.wire import NAME, created, own, owned, shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.events import Reason
    from penstock.ledger import Ledger, Part

STATUSES: dict[str, Reason] = {
    "completed": "stop", "requires_action": "calls", "incomplete": "length", "budget_exceeded": "length",
    "requires_continuation": "pause", "in_progress": "pause", "queued": "pause",
}  # fmt: skip
ECHO = "user_input"  # what was asked, sent back: no part of the answer
FILES = frozenset({"image", "audio", "video", "document"})


class Open:
    """A step that is open: what it holds until it ends."""

    __slots__ = ("arguments", "failed", "index", "key", "kind", "named", "result", "signature", "step", "text")

    def __init__(self, index: int, step: wire.Step) -> None:
        self.index = index
        self.step = step
        self.kind = step.type or ""
        self.key = ("step", index)
        self.signature = step.signature or ""
        self.arguments = step.arguments
        self.result = step.result
        self.failed = bool(step.is_error)
        self.named = step.name or ""
        self.text: Part | None = None


class Interactions:
    """State: the open steps, the names of calls that wait for a result, and whether any step was streamed."""

    def __init__(self, ledger: Ledger, keep: Callable[[], None]) -> None:
        self._ledger = ledger
        self._keep = keep
        self._steps: dict[int, Open] = {}
        self._names: dict[str, str] = {}
        self._streamed = False
        self._id = ""

    def take(self, chunk: wire.Chunk) -> None:
        if chunk.event_type is None:
            whole = wire.Interaction(
                chunk.id, chunk.model, chunk.agent, chunk.created, str(chunk.status or ""), chunk.steps, chunk.usage,
                chunk.errors,
            )  # fmt: skip
            self._begin(whole)
            self._finish(whole)
        else:
            self.table.get(chunk.event_type, Interactions._other)(self, chunk)

    def _other(self, _: wire.Chunk) -> None:
        self._keep()

    # ── the interaction ───────────────────────────────────────────────────────────────────────────

    def _created(self, chunk: wire.Chunk) -> None:
        self._begin(chunk.interaction or wire.Interaction())

    def _begin(self, said: wire.Interaction) -> None:
        if self._ledger.start(said.id or "", said.model or said.agent or "", created(said.created)):
            self._steps.clear()
            self._names.clear()
            self._streamed = False
            self._id = said.id or self._ledger.id_prefix

    def _updated(self, chunk: wire.Chunk) -> None:
        self._count(chunk.usage)

    def _completed(self, chunk: wire.Chunk) -> None:
        self._finish(chunk.interaction or wire.Interaction())

    def _finish(self, said: wire.Interaction) -> None:
        """The end mark. Steps that were not streamed are in it."""
        status = said.status or "completed"
        failed = self._ledger.breaking = status in ("failed", "cancelled")
        if not self._streamed:
            for index, step in enumerate(said.steps or ()):
                self._open(index, step)
                self._close(index)
        for index in list(self._steps):
            self._close(index)
        self._count(said.usage)
        if failed:
            error = said.errors[0] if said.errors else wire.Error(status, f"the interaction {status}")
            fault(self._ledger, error)
            return
        if status not in STATUSES:
            self._ledger.diagnostics.add("unknown-reason", f"status {status!r} is read as a normal stop")
        self._ledger.finish(STATUSES.get(status, "stop"), status)
        self._ledger.end()

    def _count(self, raw: dict[str, Any] | None) -> None:
        if not raw:
            return
        said: wire.InteractionUsage = shaped(raw, wire.InteractionUsage)
        self._ledger.usage(ev.Usage(
            total(said.total_input_tokens, said.total_tool_use_tokens),
            total(said.total_output_tokens, said.total_thought_tokens), said.total_cached_tokens, None,
            said.total_thought_tokens, extra={NAME: {"interaction": raw}},
        ))  # fmt: skip

    def _error(self, chunk: wire.Chunk) -> None:
        fault(self._ledger, chunk.error if chunk.error is not None else "the provider reported an error")

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    def _start(self, chunk: wire.Chunk) -> None:
        self._open(chunk.index or 0, chunk.step or wire.Step())

    def _open(self, index: int, step: wire.Step) -> None:
        self._close(index)
        self._streamed = True
        now = self._steps[index] = Open(index, step)
        if now.kind == ECHO:
            return
        if now.kind.endswith("_call"):
            self._call(now)
        if step.summary:
            self._say(now, "reasoning", "".join(one.text or "" for one in step.summary))
        for content in step.content or ():
            self._content(now, content)

    def _call(self, now: Open) -> None:
        step = now.step
        mine = now.kind == "function_call"
        name = step.name or now.kind.removesuffix("_call")
        call = step.id or f"call_{self._id}_{now.index}"
        self._names[call] = name
        extra = own(step=now.kind, server_name=step.server_name, thoughtSignature=step.signature or None)
        self._ledger.open_call(now.key, call, name, by="client" if mine else "provider", extra=extra)

    def _content(self, now: Open, content: wire.StepContent) -> None:
        if content.type in FILES:
            self._file(content.type or "", content.mime_type, content.uri, content.data)
        elif content.text is not None:
            self._say(now, "text", content.text)
            self._cite(now, content.annotations or ())
            self._hush(now)

    def _delta(self, chunk: wire.Chunk) -> None:
        delta, index = chunk.delta or wire.StepDelta(), chunk.index or 0
        now = self._steps.get(index)
        if now is None:
            self._open(index, wire.Step())
            now = self._steps[index]
        kind = delta.type or ""
        if now.kind == ECHO:
            return
        if kind in self.deltas:
            self.deltas[kind](self, now, delta)
        elif kind in FILES:
            self._file(kind, delta.mime_type, delta.uri, delta.data)
        elif kind.endswith(("_call", "_result")):
            self._ran(now, delta)
        else:
            self._keep()

    def _text(self, now: Open, delta: wire.StepDelta) -> None:
        self._say(now, "text", delta.text or "")

    def _summary(self, now: Open, delta: wire.StepDelta) -> None:
        said = delta.content.text if delta.content is not None else None
        self._say(now, "reasoning", said or delta.text or "")

    def _signature(self, now: Open, delta: wire.StepDelta) -> None:
        now.signature += delta.signature or ""

    def _arguments(self, now: Open, delta: wire.StepDelta) -> None:
        said = delta.arguments
        self._ledger.append_call_input(
            now.key, said if isinstance(said, str) else "" if said is None else as_json(said)
        )

    def _annotations(self, now: Open, delta: wire.StepDelta) -> None:
        self._cite(now, delta.annotations or ())

    def _ran(self, now: Open, delta: wire.StepDelta) -> None:
        now.arguments = now.arguments if delta.arguments is None else delta.arguments
        now.result = now.result if delta.result is None else delta.result
        now.failed = now.failed or bool(delta.is_error)
        now.signature = delta.signature or now.signature
        now.named = delta.name or now.named

    def _say(self, now: Open, kind: str, text: str) -> None:
        key = (*now.key, kind)
        if self._ledger.find(key) is None and text:
            if kind == "text":
                now.text = self._ledger.open_text(key, keep=True)
            else:
                self._ledger.open_reasoning(key, form="summary")
        self._ledger.append_text(key, text)

    def _hush(self, now: Open) -> None:
        self._ledger.close((*now.key, "text"))

    def _file(self, kind: str, media: str | None, url: str | None, data: str | None) -> None:
        key = ("step", "file")
        self._ledger.open_file(key, media or f"{kind}/*", url or "")
        self._ledger.append_text(key, data or "")
        self._ledger.close(key)

    def _cite(self, now: Open, notes: Sequence[wire.Annotation]) -> None:
        answer = Answer([now.text] if now.text else [])
        for note in notes:
            of, span = answer.place(note.start_index, note.end_index)
            url, title = note.url or note.document_uri or "", note.title or note.name or note.file_name or ""
            if url or title or note.source:
                source, name = note.source or "", note.file_name or ""
                place, extra = (now.index, note.start_index, note.end_index), own(annotation=note.type)
                self._ledger.cite((place, url, title, source), url, title, of, span, "", source, "", name, extra)

    def _stop(self, chunk: wire.Chunk) -> None:
        self._close(chunk.index or 0)
        self._count(chunk.usage)

    def _close(self, index: int) -> None:
        now = self._steps.pop(index, None)
        if now is None:
            return
        self._hush(now)
        self._end_thought(now)
        if now.kind.endswith("_call"):
            given = now.arguments
            part = self._ledger.find(now.key)
            text = as_json(given) if given and part is not None and not part.pieces else None
            known = owned(part.extra) if part is not None else {}
            self._ledger.end_call(now.key, text, extra=own(**{**known, "thoughtSignature": now.signature or None}))
        elif now.kind.endswith("_result"):
            call = now.step.call_id or ""
            name = self._names.get(call) or now.named or now.kind.removesuffix("_result")
            extra = own(step=now.kind, thoughtSignature=now.signature or None)
            self._ledger.add_whole_part(ev.Result, call, name, as_json(now.result), now.failed, False, extra)  # noqa: FBT003
        if now.step.error is not None:
            self._failed(now.step.error)

    def _end_thought(self, now: Open) -> None:
        """A signature without a summary is a thought that cannot be shown."""
        key = (*now.key, "reasoning")
        if now.kind == "thought" and now.signature and self._ledger.find(key) is None:
            self._ledger.open_reasoning(key, form="redacted")
        self._ledger.close(key, own(thoughtSignature=now.signature or None))

    def _failed(self, error: wire.Error) -> None:
        self._ledger.diagnostics.add("step-failed", f"{kind_of(error.code)}: {error.message}")

    deltas: ClassVar[Mapping[str, Callable[[Any, Open, wire.StepDelta], None]]] = {
        "text": _text,
        "thought_summary": _summary,
        "thought_signature": _signature,
        "arguments_delta": _arguments,
        "text_annotation_delta": _annotations,
    }
    table: ClassVar[Mapping[str, Callable[[Any, wire.Chunk], None]]] = {
        "interaction.created": _created,
        "interaction.status_update": _updated,
        "interaction.completed": _completed,
        "step.start": _start,
        "step.delta": _delta,
        "step.stop": _stop,
        "error": _error,
    }
