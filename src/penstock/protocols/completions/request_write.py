"""A conversation as one prompt: what a model that only continues text can be asked.

The system's words first, then each turn below a line with its role, and the assistant's line last. One message of the
user's alone is the prompt as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import request as rq
from penstock.markers.embed import without_ciphertext
from penstock.protocols.completions.request_read import NAME, TOKENS
from penstock.request_writer import Losses, RequestDraft, add_missing, collect_text, split_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.lenient_fields import Object

LOSSES: Losses = {
    "approval": "an approval is left out",
    "cache": "a cache point is left out",
    "choice": "which tool may or must be called is left out",
    "file": "a file is only mentioned in the prompt",
    "format": "the form of the answer is left out",
    "opaque": "state of another protocol is left out; what it says in words is sent as text",
    "reasoning": "reasoning is left out",
    "setting": "a setting without a word here is left out: {}",
    "source": "a citation in an earlier answer is left out",
    "tool": "a tool is left out, because nothing here can call it: {}",
    "transcript": "a conversation is sent as one prompt that tells who said what, and stops where the user would speak",
}
STOP = "\nuser:"


class Prompt(RequestDraft):
    """A prompt being written."""

    protocol = NAME
    losses = LOSSES

    def transcript(self, messages: Iterable[rq.Message]) -> str:
        """All that was said, and the assistant's line to go on from."""
        blocks: list[str] = []
        role = ""
        for message in messages:
            self.split_extra(message.extra)
            words = "\n".join(text for part in message.parts for text in self.words(part) if text)
            speaks = f"{message.role} ({message.name})" if message.name else message.role
            blocks.append(words if message.role == "system" and not role else f"{speaks}:\n{words}")
            role = message.role
        if role == "assistant":
            return "\n\n".join(blocks)  # the answer goes on from what was said
        return "\n\n".join([*blocks, "assistant:\n"])

    def words(self, part: Any) -> list[str]:
        """What a part says."""
        if part.cache:
            self.report_loss("cache")
        if type(part) is not rq.Opaque:
            self.split_extra(part.extra)
        return self.kinds[type(part)](self, part)

    def _text(self, part: rq.Text) -> list[str]:
        return [part.text]

    def _json(self, part: rq.Json) -> list[str]:
        return [without_ciphertext(part.json)]

    def _call(self, call: rq.Call) -> list[str]:
        return [f"[calls {call.name}: {call.json or '{}'}]"]

    def _result(self, result: rq.Result) -> list[str]:
        failed = ["[failed]"] if result.failed else []
        return [*failed, *(text for part in result.content for text in self.words(part))]

    def _file(self, file: rq.File) -> list[str]:
        self.report_loss("file")
        return [f"[{file.name or file.url or file.media}]"]

    def _thought(self, _: rq.Reasoning) -> list[str]:
        self.report_loss("reasoning")
        return []

    def _source(self, _: rq.Source) -> list[str]:
        self.report_loss("source")
        return []

    def _ask(self, _: rq.Ask) -> list[str]:
        self.report_loss("approval")
        return []

    def _opaque(self, part: rq.Opaque) -> list[str]:
        self.report_loss("opaque")
        return [collect_text(part.data)]

    kinds: ClassVar[Mapping[type, Callable[[Any, Any], list[str]]]] = {
        rq.Text: _text, rq.Json: _json, rq.Call: _call, rq.Result: _result, rq.File: _file, rq.Reasoning: _thought,
        rq.Source: _source, rq.Ask: _ask, rq.Opaque: _opaque,
    }  # fmt: skip


__all__ = ["LOSSES", "NAME", "Quirks", "Writer", "write_request"]
_STOPS = 4  # as many as may be given
_PLAIN = (
    ("max_tokens", "max_output"), ("temperature", "temperature"), ("top_p", "top_p"), ("n", "choices"),
    ("frequency_penalty", "frequency_penalty"), ("presence_penalty", "presence_penalty"), ("user", "user"),
)  # fmt: skip
_UNSAID = (
    "parallel_calls", "effort", "budget", "thoughts", "verbosity", "tier", "metadata", "cache_key", "store",
)  # fmt: skip


class Quirks(msgspec.Struct, frozen=True):
    """What providers of this protocol differ in."""

    seed: Literal["seed", "random_seed"] = "seed"
    top_k: bool = False


class Writer(Prompt):
    """One request being written."""

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self._quirks = quirks

    def write(self, request: rq.Request) -> Object:
        own, marks = self.split_extra(request.extra)
        body: Object = {"model": request.model} if request.model else {}
        stop = list(request.settings.stop)
        prompt = self._plain(request.messages)
        if prompt is None:
            self.report_loss("transcript")
            prompt = self.transcript(request.messages)
            stop += [STOP] if len(stop) < _STOPS and STOP not in stop else []
        if prompt or "bare" not in marks:
            body["prompt"] = prompt
        if stop:
            body["stop"] = stop[0] if "stop" in marks and len(stop) == 1 else stop
        if request.stream:
            body["stream"] = True
        self._settings(request.settings, marks, body)
        self._tools(request)
        body.update(own)
        if request.usage is not None:
            body["stream_options"] = {"include_usage": request.usage, **own.get("stream_options", {})}
        if not prompt and "prompt" in marks.get("also", ()):
            del body["prompt"]
        add_missing(body, marks.get("also"))
        return body

    def _plain(self, messages: list[rq.Message]) -> Any:
        """The prompt as it is, where there is nothing but one text or what this protocol said itself."""
        only = messages[0] if len(messages) == 1 else None
        if not messages:
            return ""
        if only is None or only.role != "user" or only.name:
            return None
        if len(only.parts) == 1:
            part = only.parts[0]
            if type(part) is rq.Opaque and part.protocol == NAME and part.kind == TOKENS:
                return part.data
        listed = "listed" in split_extra(only.extra, NAME)[1]
        texts = [part.text for part in only.parts if type(part) is rq.Text and not part.refusal]
        if len(texts) != len(only.parts) or (len(texts) > 1 and not listed):
            return None
        self.split_extra(only.extra)
        for part in only.parts:
            self.words(part)  # for what it says beside its words
        return texts if listed else "".join(texts)

    def _settings(self, asked: rq.Settings, marks: Object, body: Object) -> None:
        for key, name in _PLAIN:
            value = getattr(asked, name)
            if value is not None and value != "":
                body[key] = value
        if asked.seed is not None:
            body[marks.get("seed") or self._quirks.seed] = asked.seed
        if asked.logprobs:
            body["logprobs"] = asked.top_logprobs or 0
        if asked.top_k is not None and (self._quirks.top_k or "top_k" in marks):
            body["top_k"] = asked.top_k
        lost = [name for name in _UNSAID if getattr(asked, name) not in (None, "")]
        lost += ["top_k"] if asked.top_k is not None and "top_k" not in body else []
        lost += ["logprobs"] if asked.logprobs is False else []
        lost += (
            ["top_logprobs"] if asked.top_logprobs is not None and not (asked.logprobs and asked.top_logprobs) else []
        )
        for name in lost:
            self.report_loss("setting", name)
        if asked.format is not None:
            self.report_loss("format")

    def _tools(self, request: rq.Request) -> None:
        for tool in request.tools:
            self.split_extra(tool.extra)
            self.report_loss("tool", tool.name)
            if tool.cache:
                self.report_loss("cache")
        if request.choice is not None:
            self.report_loss("choice")


def write_request(request: rq.Request, quirks: Quirks | None = None) -> RequestDraft:
    """A request as the body of a completion."""
    writer = Writer(quirks or Quirks())
    writer.body = writer.write(request)
    return writer
