"""Canonical requests → text completion requests. A conversation becomes one prompt that the model continues.

The system text comes first, then each turn below a line with its role, and the assistant's line last. A single user
message is the prompt itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import _openai_requests as openai
from penstock import request as rq
from penstock._diagnostics import read_losses
from penstock._markers.embed_unsupported import remove_ciphertext
from penstock._protocols.completions.decode import NAME
from penstock._protocols.completions.request_read import TOKENS
from penstock._request_writer import RequestDraft, add_missing, collect_text, omit_with_loss, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")
_USER_LINE = "\nuser:"  # stops the model from writing the user's next turn
_MAX_STOPS = 4
_SETTING_FIELDS = openai.parse_field_names(
    "max_tokens=max_output temperature top_p n=choices frequency_penalty presence_penalty user"
)
_UNSUPPORTED = ("parallel_calls", "effort", "budget", "thoughts", "verbosity", "tier", "metadata", "cache_key", "store")


class Quirks(msgspec.Struct, frozen=True):
    """Differences between providers of this protocol."""

    seed: Literal["seed", "random_seed"] = "seed"
    top_k: bool = False


class CompletionsRequestWriter(RequestDraft):
    """Writes one request."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self._quirks = quirks

    def write(self, request: rq.Request) -> Object:
        extras, marks = self.split_extra(request.extra)
        body: Object = {"model": request.model} if request.model else {}
        stop = list(request.settings.stop)
        prompt = self._write_plain_prompt(request.messages)
        if prompt is None:
            self.report_loss("transcript")
            prompt = self._write_transcript(request.messages)
            stop += [_USER_LINE] if len(stop) < _MAX_STOPS and _USER_LINE not in stop else []
        if prompt or "bare" not in marks:
            body["prompt"] = prompt
        if stop:
            body["stop"] = stop[0] if "stop" in marks and len(stop) == 1 else stop
        if request.stream:
            body["stream"] = True
        self._write_settings(request.settings, marks, body)
        self._report_tools(request)
        body.update(extras)
        if request.usage is not None:
            body["stream_options"] = {"include_usage": request.usage, **extras.get("stream_options", {})}
        if not prompt and "prompt" in marks.get("also", ()):
            del body["prompt"]
        add_missing(body, marks.get("also"))
        return body

    # ── the prompt ────────────────────────────────────────────────────────────────────────────────

    def _write_plain_prompt(self, messages: list[rq.Message]) -> Any:
        """Returns the prompt of a single user message; None if the messages need a transcript."""
        if not messages:
            return ""
        only = messages[0]
        if len(messages) > 1 or only.role != "user" or only.name:
            return None
        if len(only.parts) == 1:
            part = only.parts[0]
            if type(part) is rq.Opaque and part.protocol == NAME and part.kind == TOKENS:
                return part.data
        is_list = "listed" in split_extra(only.extra, NAME)[1]
        texts = [part.text for part in only.parts if type(part) is rq.Text and not part.refusal]
        if len(texts) != len(only.parts) or (len(texts) > 1 and not is_list):
            return None
        self.split_extra(only.extra)
        for part in only.parts:
            self._write_part(part)  # reports its losses
        return texts if is_list else "".join(texts)

    def _write_transcript(self, messages: Iterable[rq.Message]) -> str:
        """Writes all messages, and the assistant's line for the model to continue."""
        blocks: list[str] = []
        role = ""
        for message in messages:
            self.split_extra(message.extra)
            text = "\n".join(text for part in message.parts for text in self._write_part(part) if text)
            speaker = f"{message.role} ({message.name})" if message.name else message.role
            blocks.append(text if message.role == "system" and not role else f"{speaker}:\n{text}")
            role = message.role
        return "\n\n".join(blocks if role == "assistant" else [*blocks, "assistant:\n"])

    def _write_part(self, part: Any) -> list[str]:
        if part.cache:
            self.report_loss("cache")
        if type(part) is not rq.Opaque:
            self.split_extra(part.extra)
        return self.part_writers[type(part)](self, part)

    def _write_result(self, result: rq.Result) -> list[str]:
        failed = ["[failed]"] if result.failed else []
        return [*failed, *(text for part in result.content for text in self._write_part(part))]

    def _write_file(self, file: rq.File) -> list[str]:
        self.report_loss("file")
        return [f"[{file.name or file.url or file.media}]"]

    def _write_opaque(self, part: rq.Opaque) -> list[str]:
        self.report_loss("opaque")
        return [collect_text(part.data)]

    part_writers: ClassVar[Mapping[type, Callable[[Any, Any], list[Any]]]] = {
        rq.Text: lambda _, text: [text.text],
        rq.Json: lambda _, value: [remove_ciphertext(value.json)],
        rq.Call: lambda _, call: [f"[calls {call.name}: {call.json or '{}'}]"],
        rq.Result: _write_result,
        rq.File: _write_file,
        rq.Reasoning: omit_with_loss("reasoning"),
        rq.Source: omit_with_loss("source"),
        rq.Ask: omit_with_loss("approval"),
        rq.Opaque: _write_opaque,
    }

    # ── settings and tools ────────────────────────────────────────────────────────────────────────

    def _write_settings(self, settings: rq.Settings, marks: Object, body: Object) -> None:
        openai.write_fields(settings, _SETTING_FIELDS, body)
        if settings.seed is not None:
            body[marks.get("seed") or self._quirks.seed] = settings.seed
        if settings.logprobs:
            body["logprobs"] = settings.top_logprobs or 0
        if settings.top_k is not None and (self._quirks.top_k or "top_k" in marks):
            body["top_k"] = settings.top_k
        lost = [name for name in _UNSUPPORTED if getattr(settings, name) not in (None, "")]
        has_top_logprobs = settings.logprobs and settings.top_logprobs
        lost += ["top_k"] if settings.top_k is not None and "top_k" not in body else []
        lost += ["logprobs"] if settings.logprobs is False else []
        lost += ["top_logprobs"] if settings.top_logprobs is not None and not has_top_logprobs else []
        for name in lost:
            self.report_loss("setting", name)
        if settings.format is not None:
            self.report_loss("format")

    def _report_tools(self, request: rq.Request) -> None:
        for tool in request.tools:
            self.split_extra(tool.extra)
            self.report_loss("tool", tool.name)
            if tool.cache:
                self.report_loss("cache")
        if request.choice is not None:
            self.report_loss("choice")


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """Writes a request as the body of a completion call."""
    writer = CompletionsRequestWriter(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
