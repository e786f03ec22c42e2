"""Gemini Interactions API → events. Steps open and close by index; an end mark has the usage and the status.

Thoughts are summaries with a signature, often only the signature. Steps `…_call` and `…_result` are tools that the
provider ran, except `function_call`, which is for the client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock import events as ev
from penstock._lenient_json import as_json
from penstock._protocols.gemini import wire
from penstock._protocols.gemini.decode_metadata import AnswerText, report_fault
from penstock._protocols.gemini.wire import NAME, build_gemini_extra, get_gemini_fields, parse_time, sum_counts
from penstock._vendor_errors import fault_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._ledger import Ledger, LedgerPart

_STATUS_REASONS: dict[str, ev.Reason] = wire.ENUMS["interaction_statuses"]
_USER_INPUT = "user_input"  # echo of the request; not part of the answer
_FILE_TYPES = frozenset({"image", "audio", "video", "document"})


@dataclass(slots=True)
class OpenStep:
    """An open step with the fields that are reported when it ends."""

    index: int
    step: wire.Step
    text: LedgerPart | None = None

    @property
    def type(self) -> str:
        return self.step.type or ""

    @property
    def key(self) -> tuple[str, int]:
        return "step", self.index

    def update_step(self, delta: wire.StepDelta) -> None:
        """Replaces the fields of a provider's call or result that the delta has."""
        step = self.step
        step.arguments = step.arguments if delta.arguments is None else delta.arguments
        step.result = step.result if delta.result is None else delta.result
        step.is_error = step.is_error or delta.is_error
        step.signature = delta.signature or step.signature
        step.name = delta.name or step.name


class InteractionDecoder:
    """State: the open steps, the names of calls by id, and whether any step was streamed."""

    def __init__(self, ledger: Ledger, keep_frame: Callable[[], None]) -> None:
        self._ledger = ledger
        self._keep_frame = keep_frame
        self._steps: dict[int, OpenStep] = {}
        self._call_names: dict[str, str] = {}
        self._streamed = False
        self._id = ""

    def decode(self, chunk: wire.Chunk) -> None:
        if chunk.event_type is None:
            self._start_turn(chunk)
            self._finish_turn(chunk)
        elif chunk.event_type in self.event_readers:
            self.event_readers[chunk.event_type](self, chunk)
        else:
            self._keep_frame()

    # ── the interaction ───────────────────────────────────────────────────────────────────────────

    def _start_turn(self, interaction: wire.Interaction) -> None:
        model = interaction.model or interaction.agent or ""
        if self._ledger.start(interaction.id or "", model, parse_time(interaction.created)):
            self._steps.clear()
            self._call_names.clear()
            self._streamed = False
            self._id = interaction.id or self._ledger.id_prefix

    def _finish_turn(self, interaction: wire.Interaction) -> None:
        """Ends the turn. The end mark has the steps that were not streamed."""
        status = str(interaction.status or "completed")
        failed = self._ledger.breaking = status in ("failed", "cancelled")
        if not self._streamed:
            for index, step in enumerate(interaction.steps or ()):
                self._open_step(index, step)
                self._close_step(index)
        for index in list(self._steps):
            self._close_step(index)
        self._report_usage(interaction.usage)
        if failed:
            unknown = wire.Error(status, f"the interaction {status}")
            report_fault(self._ledger, interaction.errors[0] if interaction.errors else unknown)
            return
        if status not in _STATUS_REASONS:
            self._ledger.diagnostics.add("unknown-reason", f"status {status!r} is read as a normal stop")
        self._ledger.finish(_STATUS_REASONS.get(status, "stop"), status)
        self._ledger.end()

    def _report_usage(self, raw: dict[str, Any] | None) -> None:
        if raw:
            prompt = sum_counts(raw, "total_input_tokens", "total_tool_use_tokens")
            output = sum_counts(raw, "total_output_tokens", "total_thought_tokens")
            cached, thoughts = sum_counts(raw, "total_cached_tokens"), sum_counts(raw, "total_thought_tokens")
            self._ledger.usage(ev.Usage(prompt, output, cached, None, thoughts, extra={NAME: {"interaction": raw}}))

    def _on_error(self, chunk: wire.Chunk) -> None:
        report_fault(self._ledger, chunk.error if chunk.error is not None else "the provider reported an error")

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    def _open_step(self, index: int, step: wire.Step) -> None:
        self._close_step(index)
        self._streamed = True
        current = self._steps[index] = OpenStep(index, step)
        if current.type == _USER_INPUT:
            return
        if current.type.endswith("_call"):
            self._open_call(current)
        if step.summary:
            self._append_text(current, "reasoning", "".join(one.text or "" for one in step.summary))
        for content in step.content or ():
            self._add_content(current, content)

    def _open_call(self, current: OpenStep) -> None:
        step = current.step
        name = step.name or current.type.removesuffix("_call")
        call = step.id or f"call_{self._id}_{current.index}"
        self._call_names[call] = name
        signature = step.signature or None
        extra = build_gemini_extra(step=current.type, server_name=step.server_name, thoughtSignature=signature)
        is_function = current.type == "function_call"
        self._ledger.open_call(current.key, call, name, by="client" if is_function else "provider", extra=extra)

    def _add_content(self, current: OpenStep, content: wire.StepContent) -> None:
        if content.type in _FILE_TYPES:
            self._add_file(content.type or "", content)
        elif content.text is not None:
            self._append_text(current, "text", content.text)
            self._report_sources(current, content.annotations or ())
            self._ledger.close((*current.key, "text"))

    def _on_step_delta(self, chunk: wire.Chunk) -> None:
        delta, index = chunk.delta or wire.StepDelta(), chunk.index or 0
        if index not in self._steps:
            self._open_step(index, wire.Step())
        current, kind = self._steps[index], delta.type or ""
        if current.type == _USER_INPUT:
            return
        if kind in self.delta_readers:
            self.delta_readers[kind](self, current, delta)
        elif kind in _FILE_TYPES:
            self._add_file(kind, delta)
        elif kind.endswith(("_call", "_result")):
            current.update_step(delta)
        else:
            self._keep_frame()

    def _append_summary(self, current: OpenStep, delta: wire.StepDelta) -> None:
        text = delta.content.text if delta.content is not None else None
        self._append_text(current, "reasoning", text or delta.text or "")

    def _append_signature(self, current: OpenStep, delta: wire.StepDelta) -> None:
        current.step.signature = (current.step.signature or "") + (delta.signature or "")

    def _append_arguments(self, current: OpenStep, delta: wire.StepDelta) -> None:
        args = delta.arguments
        text = args if isinstance(args, str) else "" if args is None else as_json(args)
        self._ledger.append_call_input(current.key, text)

    def _append_text(self, current: OpenStep, kind: str, text: str) -> None:
        key = (*current.key, kind)
        if self._ledger.find(key) is None and text:
            if kind == "text":
                current.text = self._ledger.open_text(key, keep=True)
            else:
                self._ledger.open_reasoning(key, form="summary")
        self._ledger.append_text(key, text)

    def _add_file(self, kind: str, file: wire.StepContent | wire.StepDelta) -> None:
        key = ("step", "file")
        self._ledger.open_file(key, file.mime_type or f"{kind}/*", file.uri or "")
        self._ledger.append_text(key, file.data or "")
        self._ledger.close(key)

    def _report_sources(self, current: OpenStep, annotations: Sequence[wire.Annotation]) -> None:
        answer = AnswerText([current.text] if current.text else [])
        for one in annotations:
            location = answer.locate_range(one.start_index, one.end_index)
            url, title = one.url or one.document_uri or "", one.title or one.name or one.file_name or ""
            if url or title or one.source:
                source, extra = one.source or "", build_gemini_extra(annotation=one.type)
                key = ((current.index, one.start_index, one.end_index), url, title, source)
                self._ledger.cite(key, url, title, *location, "", source, "", one.file_name or "", extra)

    def _on_step_stop(self, chunk: wire.Chunk) -> None:
        self._close_step(chunk.index or 0)
        self._report_usage(chunk.usage)

    def _close_step(self, index: int) -> None:
        current = self._steps.pop(index, None)
        if current is None:
            return
        self._ledger.close((*current.key, "text"))
        self._close_thought(current)
        step, signature = current.step, current.step.signature or None
        if current.type.endswith("_call"):
            part = self._ledger.find(current.key)
            text = as_json(step.arguments) if step.arguments and part is not None and not part.pieces else None
            fields = {**(get_gemini_fields(part.extra) if part is not None else {}), "thoughtSignature": signature}
            self._ledger.end_call(current.key, text, extra=build_gemini_extra(**fields))
        elif current.type.endswith("_result"):
            call = step.call_id or ""
            name = self._call_names.get(call) or step.name or current.type.removesuffix("_result")
            extra = build_gemini_extra(step=current.type, thoughtSignature=signature)
            failed = bool(step.is_error)
            self._ledger.add_whole_part(ev.Result, call, name, as_json(step.result), failed, False, extra)  # noqa: FBT003
        if step.error is not None:
            self._ledger.diagnostics.add("step-failed", f"{fault_kind(step.error.code)}: {step.error.message}")

    def _close_thought(self, current: OpenStep) -> None:
        """Ends a thought. One with a signature but no summary becomes a redacted reasoning part."""
        key, signature = (*current.key, "reasoning"), current.step.signature or None
        if current.type == "thought" and signature and self._ledger.find(key) is None:
            self._ledger.open_reasoning(key, form="redacted")
        self._ledger.close(key, build_gemini_extra(thoughtSignature=signature))

    delta_readers: ClassVar[Mapping[str, Callable[[Any, OpenStep, wire.StepDelta], None]]] = {
        "text": lambda self, current, delta: self._append_text(current, "text", delta.text or ""),
        "thought_summary": _append_summary,
        "thought_signature": _append_signature,
        "arguments_delta": _append_arguments,
        "text_annotation_delta": lambda self, current, delta: self._report_sources(current, delta.annotations or ()),
    }
    event_readers: ClassVar[Mapping[str, Callable[[Any, wire.Chunk], None]]] = {
        "interaction.created": lambda self, chunk: self._start_turn(chunk.interaction or wire.Interaction()),
        "interaction.status_update": lambda self, chunk: self._report_usage(chunk.usage),
        "interaction.completed": lambda self, chunk: self._finish_turn(chunk.interaction or wire.Interaction()),
        "step.start": lambda self, chunk: self._open_step(chunk.index or 0, chunk.step or wire.Step()),
        "step.delta": _on_step_delta,
        "step.stop": _on_step_stop,
        "error": _on_error,
    }
