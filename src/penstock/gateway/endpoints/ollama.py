"""Ollama's own chat and generate, as its clients ask for them: a line for each piece, and a call in one of them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.errors import BadRequest, PenstockError
from penstock.gateway.callers import refused
from penstock.gateway.endpoints import PLAYED, Asked, Door, read_body
from penstock.input_limits import decode_deep
from penstock.jsontext import decode_or_keep_raw
from penstock.messages.request_codecs import reader
from penstock.providers.models import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.framing import Frame
    from penstock.gateway.catalogue import Entry
    from penstock.gateway.endpoints import Visit
    from penstock.gateway.services import Services
    from penstock.lenient_fields import Object

_REASONS = {"length": "length"}


class Lines:
    """Events to Ollama's lines. What it has no word for (files, sources, calls run upstream) is not said."""

    def __init__(self, model: str, *, generate: bool = False) -> None:
        self._model, self._generate = model, generate
        self._head: Object = {"model": model, "created_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}
        self._usage = ev.Usage()
        self._began = time.monotonic_ns()
        self._first = 0  # when something was said
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

    def _say(self, message: Object, **more: Any) -> None:
        self._first = self._first or time.monotonic_ns()
        if self._generate:
            said = {"response": message.pop("content", ""), **message}
        else:
            said = {"message": {"role": "assistant", "content": "", **message}}
        self._out.append((b"", msgspec.json.encode({**self._head, **said, "done": False, **more})))

    def _text(self, event: ev.TextDelta | ev.RefusalDelta) -> None:
        self._say({"content": event.text})

    def _thought(self, event: ev.ReasoningDelta) -> None:
        self._say({"thinking": event.text})

    def _call(self, event: ev.CallEnd) -> None:
        if event.by == "client" and not event.broken:
            value: Any = decode_or_keep_raw(event.json or "{}") if event.form == "json" else {"input": event.json}
            self._say({"tool_calls": [{"id": event.id, "function": {"name": event.name, "arguments": value}}]})

    def _counted(self, event: ev.Usage) -> None:
        self._usage = self._usage if event.step else event

    def _finish(self, event: ev.Finish) -> None:
        now = time.monotonic_ns()
        first = self._first or now
        counts = {
            "total_duration": now - self._began, "load_duration": 0, "prompt_eval_count": self._usage.input or 0,
            "prompt_eval_duration": first - self._began, "eval_count": self._usage.output or 0,
            "eval_duration": now - first,
        }  # fmt: skip
        self._say({"content": ""}, done=True, done_reason=_REASONS.get(event.reason, "stop"), **counts)

    def _fault(self, event: ev.Fault) -> None:
        self._out.append((b"", msgspec.json.encode({"error": event.message})))

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.TextDelta: _text, ev.RefusalDelta: _text, ev.ReasoningDelta: _thought, ev.CallEnd: _call,
        ev.Usage: _counted, ev.Finish: _finish, ev.Fault: _fault,
    }  # fmt: skip


def whole(frames: Sequence[Frame]) -> bytes:
    """The lines as one: an error alone, else the last line with all that was said before it."""
    lines: list[Any] = [decode_deep(data, trusted=True) for _, data in frames]
    last: Object = lines[-1]
    if "error" in last:
        return msgspec.json.encode({"error": last["error"]})
    inner = [line.get("message", line) for line in lines]
    key = "response" if "response" in last else "content"
    said: Object = {key: "".join(row.get(key, "") for row in inner)}
    if thought := "".join(row.get("thinking", "") for row in inner):
        said["thinking"] = thought
    if calls := [call for row in inner for call in row.get("tool_calls", ())]:
        said["tool_calls"] = calls
    made = {**last, **said} if key == "response" else {**last, "message": {"role": "assistant", **said}}
    return msgspec.json.encode(made)


def asked_of(body: Object) -> Asked:
    """A request of Ollama's, to chat or to generate; with a suffix, to fill in what stands before it."""
    generate = "messages" not in body
    if generate and str(body.get("model", "")).startswith(PLAYED):
        body.setdefault("prompt", "")
    request = reader("ollama")(body)
    fills = generate and bool(body.get("suffix"))
    if fills:
        given = {key: body.get(key) for key in ("model", "prompt", "suffix", "stream")}
        filling = reader("completions")({**given, "stream": request.stream})
        filling.settings, request = request.settings, filling

    def encoder() -> Lines:
        return Lines(request.model, generate=generate)

    asked = Asked(request, "ollama", framing="ndjson", encoder=encoder, body=whole, tee=False)
    if fills:
        asked.source, asked.operation = "completions", "fim"
    return asked


def read_generate(visit: Visit) -> Asked:
    """`/api/generate`."""
    return read_body(visit, asked_of)


def instead(visit: Visit) -> Any:
    """What answers a request that only wants its model loaded."""
    try:
        body = visit.body()
        return loaded if loads(body) and not str(body.get("model", "")).startswith(PLAYED) else None
    except PenstockError:
        return None  # the turn will say what is wrong


GENERATE = Door("ollama", read_generate, instead)


SPOKEN = "0.12.6"  # the version of Ollama whose API this is: clients look for what they need
WHEN = "2026-01-01T00:00:00Z"
# What a model can do, in Ollama's words.
WORDS = {
    "chat": "completion", "tools": "tools", "images": "vision", "reasoning": "thinking", "embeddings": "embedding",
    "fim": "insert",
}  # fmt: skip
_encode = msgspec.json.encode


def listed(entry: Entry) -> Object:
    """A model in a list. Its digest is of its name: the same for as long as it is called so."""
    return {
        "name": entry.name, "model": entry.name, "modified_at": WHEN, "size": 0,
        "digest": sha256(entry.name.encode("utf-8", "replace")).hexdigest(), "details": _details(entry),
    }  # fmt: skip


def _details(entry: Entry) -> Object:
    family = entry.model.family or entry.model.provider
    return {
        "parent_model": "", "format": "", "family": family, "families": [family], "parameter_size": "",
        "quantization_level": "",
    }  # fmt: skip


async def shown(services: Services, visit: Visit) -> bytes:
    """`POST /api/show`."""
    name = name_of(visit.body())
    entry = await services.catalogue.find(visit.caller, name)
    visit.caller.check(name)
    model = entry.model
    family = model.family or model.provider
    info: Object = {"general.architecture": family, "general.basename": model.name or name}
    if model.context or model.max_input:
        info[f"{family}.context_length"] = model.context or model.max_input
    made = {
        "license": "", "modelfile": f"FROM {name}\n", "parameters": "", "template": "{{ .Prompt }}",
        "details": _details(entry), "model_info": info, "modified_at": WHEN,
        "capabilities": _abilities(entry),
    }  # fmt: skip
    return _encode(made)


def _abilities(entry: Entry) -> list[str]:
    """In Ollama's words. A model of which nothing but the name is known may well call tools."""
    can = entry.model.capabilities
    if "chat" in can and entry.model.source.get("capabilities") == NAME:
        can |= {"tools"}
    return [word for ability, word in WORDS.items() if ability in can] or ["completion"]


async def running(_: Services, __: Visit) -> bytes:
    """`GET /api/ps`: nothing is loaded here."""
    return _encode({"models": []})


async def version(_: Services, __: Visit) -> bytes:
    """`GET /api/version`."""
    return _encode({"version": SPOKEN})


async def unserved(_: Services, visit: Visit) -> bytes:
    """What would change which models there are."""
    what = visit.path.rpartition("/")[2]
    said = f"{what}: models are not kept here, only reached; GET /api/tags lists them, penstock.toml names more"
    raise refused(501, "invalid", said, code="not_served")


def name_of(body: Object) -> str:
    """The model's name, in the newer word or the older."""
    found = lenient.get_text(body, "model") or lenient.get_text(body, "name")
    if not found:
        raise BadRequest("a model's name", body.get("model"), "model")
    return found


# ── loading ───────────────────────────────────────────────────────────────────────────────────────


def loads(body: Object) -> bool:
    """Whether a request says nothing: Ollama then loads the model, or lets it go."""
    return not any(body.get(key) for key in ("prompt", "messages", "images", "suffix", "system"))


async def loaded(services: Services, visit: Visit) -> bytes:
    """The answer to it: there is nothing to load, but the model must be one."""
    body = visit.body()
    name = name_of(body)
    visit.caller.check(name)
    services.catalogue.target(name)
    gone = body.get("keep_alive") in (0, "0", "0s", "0m")
    said: dict[str, Any] = {"response": ""} if visit.path.endswith("generate") else {}
    if not said:
        said = {"message": {"role": "assistant", "content": ""}}
    when = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return _encode(
        {"model": name, "created_at": when, **said, "done": True, "done_reason": "unload" if gone else "load"}
    )
