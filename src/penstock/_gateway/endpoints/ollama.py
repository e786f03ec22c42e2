"""Ollama's API: chat and generate as JSON lines, the routes for models; and `useChat` of the AI SDK.

Ollama's chat and `useChat` have the same path, `/api/chat`: the body decides.

The gateway does not pull or load models: such requests succeed if that is harmless, and are refused otherwise.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._gateway import read_tables
from penstock._gateway.callers import make_refusal
from penstock._gateway.endpoints import ClientEndpoint, IncomingRequest, TurnRequest, is_replay, read_body
from penstock._input_limits import decode_deep
from penstock._lenient_json import decode_unless_too_deep
from penstock._messages.request_codecs import reader
from penstock._providers.models import NAME
from penstock.errors import BadRequest, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._framing.base import Frame
    from penstock._gateway.catalogue import ModelEntry
    from penstock._gateway.services import Services
    from penstock._lenient_fields import Object

_FINISH_REASONS = {"length": "length"}


class OllamaEncoder:
    """Encodes events as Ollama's lines. Drops files, sources and calls that the provider ran: Ollama has no form."""

    def __init__(self, model: str, *, generate: bool = False) -> None:
        self._model, self.generate = model, generate
        self._head: Object = {"model": model, "created_at": _format_now()}
        self._usage = ev.Usage()
        self._began = time.monotonic_ns()
        self._first = 0  # time of the first content
        self._out: list[Frame] = []

    def feed(self, events: Sequence[ev.AnyEvent], /) -> list[Frame]:
        self._out = []
        for event in events:
            row = self.table.get(type(event))
            if row is not None:
                row(self, event)
        return self._out

    def finish(self) -> list[Frame]:
        return []

    def _write_line(self, message: Object, **more: Any) -> None:
        self._first = self._first or time.monotonic_ns()
        if self.generate:
            fields = {"response": message.pop("content", ""), **message}
        else:
            fields = {"message": {"role": "assistant", "content": "", **message}}
        self._out.append((b"", msgspec.json.encode({**self._head, **fields, "done": False, **more})))

    def _text(self, event: ev.TextDelta | ev.RefusalDelta) -> None:
        self._write_line({"content": event.text})

    def _reasoning(self, event: ev.ReasoningDelta) -> None:
        self._write_line({"thinking": event.text})

    def _call(self, event: ev.CallEnd) -> None:
        if event.by == "client" and not event.broken:
            value: Any = decode_unless_too_deep(event.json or "{}") if event.form == "json" else {"input": event.json}
            self._write_line({"tool_calls": [{"id": event.id, "function": {"name": event.name, "arguments": value}}]})

    def _store_usage(self, event: ev.Usage) -> None:
        self._usage = self._usage if event.step else event

    def _finish(self, event: ev.Finish) -> None:
        now = time.monotonic_ns()
        first = self._first or now
        counts = {
            "total_duration": now - self._began,
            "load_duration": 0,
            "prompt_eval_count": self._usage.input or 0,
            "prompt_eval_duration": first - self._began,
            "eval_count": self._usage.output or 0,
            "eval_duration": now - first,
        }
        self._write_line({"content": ""}, done=True, done_reason=_FINISH_REASONS.get(event.reason, "stop"), **counts)

    def _fault(self, event: ev.Fault) -> None:
        self._out.append((b"", msgspec.json.encode({"error": event.message})))

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.TextDelta: _text,
        ev.RefusalDelta: _text,
        ev.ReasoningDelta: _reasoning,
        ev.CallEnd: _call,
        ev.Usage: _store_usage,
        ev.Finish: _finish,
        ev.Fault: _fault,
    }


def _format_now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def join_lines(frames: Sequence[Frame]) -> bytes:
    """Join lines to one body: the error alone, else the last line with all text, reasoning and calls."""
    lines: list[Any] = [decode_deep(data, trusted=True) for _, data in frames]
    last: Object = lines[-1]
    if "error" in last:
        return msgspec.json.encode({"error": last["error"]})
    inner = [line.get("message", line) for line in lines]
    key = "response" if "response" in last else "content"
    fields: Object = {key: "".join(row.get(key, "") for row in inner)}
    if thought := "".join(row.get("thinking", "") for row in inner):
        fields["thinking"] = thought
    if calls := [call for row in inner for call in row.get("tool_calls", ())]:
        fields["tool_calls"] = calls
    result = {**last, **fields} if key == "response" else {**last, "message": {"role": "assistant", **fields}}
    return msgspec.json.encode(result)


def build_ollama_request(body: Object) -> TurnRequest:
    """Build the turn of a chat or generate request. With a suffix it is fill-in-the-middle."""
    generate = "messages" not in body
    if generate and is_replay(body):
        body.setdefault("prompt", "")
    request = reader("ollama")(body)
    fills = generate and bool(body.get("suffix"))
    if fills:
        given = {key: body.get(key) for key in ("model", "prompt", "suffix", "stream")}
        filling = reader("completions")({**given, "stream": request.stream})
        filling.settings, request = request.settings, filling

    def encoder() -> OllamaEncoder:
        return OllamaEncoder(request.model, generate=generate)

    turn_request = TurnRequest(
        request, "ollama", framing="ndjson", encoder=encoder, body=join_lines, allow_passthrough=False
    )
    if fills:
        turn_request.source, turn_request.operation = "completions", "fim"
    return turn_request


def read_generate(incoming: IncomingRequest) -> TurnRequest:
    """`/api/generate`."""
    return read_body(incoming, build_ollama_request)


def find_load_handler(incoming: IncomingRequest) -> Any:
    """Return the handler of a request that only loads a model; None for other requests."""
    is_chat = incoming.path.endswith("chat")  # a path that `useChat` has too
    if is_chat and b'"parts"' in incoming.raw:
        return None
    try:
        body = incoming.json_body()
    except PenstockError:
        return None  # the turn reports the error
    loads = is_load_request(body) and not is_replay(body) and (is_ollama(body) or not is_chat)
    return answer_load_request if loads else None


GENERATE = ClientEndpoint("ollama", read_generate, find_load_handler)


OLLAMA_VERSION = "0.12.6"  # the Ollama version whose API is implemented; clients check it
MODIFIED_AT = "2026-01-01T00:00:00Z"
_encode = msgspec.json.encode


def format_ollama_model(entry: ModelEntry) -> Object:
    """Format a model for a list. The digest is a hash of its name."""
    return {
        "name": entry.name,
        "model": entry.name,
        "modified_at": MODIFIED_AT,
        "size": 0,
        "digest": sha256(entry.name.encode("utf-8", "replace")).hexdigest(),
        "details": _model_details(entry),
    }


def _model_details(entry: ModelEntry) -> Object:
    family = entry.model.family or entry.model.provider
    names = {"parent_model": "", "format": "", "family": family, "families": [family]}
    return {**names, "parameter_size": "", "quantization_level": ""}


async def show_ollama_model(services: Services, incoming: IncomingRequest) -> bytes:
    """`POST /api/show`."""
    name = read_model_name(incoming.json_body())
    entry = await services.catalogue.find(incoming.caller, name)
    incoming.caller.check_model(name)
    model, family = entry.model, entry.model.family or entry.model.provider
    info: Object = {"general.architecture": family, "general.basename": model.name or name}
    if model.context or model.max_input:
        info[f"{family}.context_length"] = model.context or model.max_input
    fields = {
        "license": "",
        "modelfile": f"FROM {name}\n",
        "parameters": "",
        "template": "{{ .Prompt }}",
        "details": _model_details(entry),
        "model_info": info,
        "modified_at": MODIFIED_AT,
        "capabilities": _ollama_capabilities(entry),
    }
    return _encode(fields)


def _ollama_capabilities(entry: ModelEntry) -> list[str]:
    """Return the capabilities in Ollama's terms. An unknown model is said to call tools."""
    can = entry.model.capabilities
    if "chat" in can and entry.model.source.get("capabilities") == NAME:
        can |= {"tools"}
    return [word for ability, word in read_tables()["ollama_capabilities"].items() if ability in can] or ["completion"]


async def list_running_models(_: Services, __: IncomingRequest) -> bytes:
    """`GET /api/ps`: no models are loaded."""
    return _encode({"models": []})


async def report_version(_: Services, __: IncomingRequest) -> bytes:
    """`GET /api/version`."""
    return _encode({"version": OLLAMA_VERSION})


async def refuse_model_change(_: Services, incoming: IncomingRequest) -> bytes:
    """Refuse a request that would change the set of models."""
    what = incoming.path.rpartition("/")[2]
    reason = f"{what}: models are not kept here, only reached; GET /api/tags lists them, penstock.toml names more"
    raise make_refusal(501, "invalid", reason, code="not_served")


def read_model_name(body: Object) -> str:
    """Return the model's name, from `model` or the older `name`."""
    if name := lenient.get_text(body, "model", "name"):
        return name
    raise BadRequest("a model's name", body.get("model"), "model")


# ── loading ───────────────────────────────────────────────────────────────────────────────────────


def is_load_request(body: Object) -> bool:
    """Return whether a request has no input: Ollama then loads or unloads the model."""
    return not any(body.get(key) for key in ("prompt", "messages", "images", "suffix", "system"))


async def answer_load_request(services: Services, incoming: IncomingRequest) -> bytes:
    """Answer a load request. Nothing is loaded, but the model must exist."""
    body = incoming.json_body()
    name = read_model_name(body)
    incoming.caller.check_model(name)
    services.catalogue.target(name)
    gone = body.get("keep_alive") in (0, "0", "0s", "0m")
    message = {"role": "assistant", "content": ""}
    content: Object = {"response": ""} if incoming.path.endswith("generate") else {"message": message}
    end = {"done": True, "done_reason": "unload" if gone else "load"}
    return _encode({"model": name, "created_at": _format_now(), **content, **end})


UI_STREAM_HEADERS = ((b"x-vercel-ai-ui-message-stream", b"v1"),)
_UI_FIELDS = frozenset({"id", "trigger", "messageId"})


def is_ollama(body: Object) -> bool:
    """Return whether a body is Ollama's: its messages have `content` instead of `parts`, and it names a model."""
    messages = lenient.get_objects(body, "messages")
    if _UI_FIELDS & body.keys() or any("parts" in message for message in messages):
        return False
    is_named = bool(lenient.get_text(body, "model"))
    return is_named and all("role" in message and "id" not in message for message in messages)


def read_api_chat(incoming: IncomingRequest) -> TurnRequest:
    """Read a UI message stream request, or Ollama's."""
    return read_body(incoming, lambda body: _read_api_chat_body(incoming, body))


def _read_api_chat_body(incoming: IncomingRequest, body: Object) -> TurnRequest:
    if is_ollama(body) and "messages" in body:
        return build_ollama_request(body)
    if is_replay(body):
        body.setdefault("messages", [])
    request = reader("uistream")(body)
    options = {"id": f"msg_{incoming.id}", "model": request.model}
    for last in lenient.get_objects(body, "messages")[-1:]:
        if last.get("role") == "assistant":  # the page continues it: with another id it would show it twice
            options["message_id"] = lenient.get_text(last, "id")
    chat = lenient.get_text(body, "id")
    name = f"chat/{chat}" if chat else ""
    return TurnRequest(request, "uistream", options=options, headers=UI_STREAM_HEADERS, stream_name=name)


API_CHAT = ClientEndpoint("uistream", read_api_chat, find_load_handler)
