"""OpenTelemetry spans and metrics of a client, by the conventions for generative AI.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ (status: development). Nothing is imported here: spans
are created if the program has imported `opentelemetry.trace`, metrics if it has imported `opentelemetry.metrics`. The
program's SDK decides what becomes of them; without an SDK they cost a lookup. A span has no content of messages, unless
the client is told so. The gateway names its spans by the same tables.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock._client.span_content import write_tool_content
from penstock._providers.registry import find_provider
from penstock._redaction import redact_cut
from penstock._version import __version__
from penstock.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from penstock.events import Fault, Usage
    from penstock.request import Request

SCOPE = "penstock"
MAX_ATTRIBUTE = 500  # characters of a name or an attribute
AttributeValue: TypeAlias = "str | bool | int | float | list[str]"
# Our operations that the conventions name otherwise. They have no name for rerank.
_OPERATION_NAMES = {"text_completion": ("completions", "fim"), "embeddings": ("embeddings",), "rerank": ("rerank",)}
_REQUEST_ATTRIBUTES = {
    "max_output": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "stop_sequences",
    "seed": "seed",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "effort": "reasoning.level",
}
_USAGE_ATTRIBUTES = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cached": "cache_read.input_tokens",
    "written": "cache_creation.input_tokens",
    "reasoning": "reasoning.output_tokens",
}
_OUTPUT_TYPES = {"text": "text", "json": "json", "schema": "json"}
_PORTS = {"http": 80, "https": 443}


def operation_name(operation: str) -> str:
    """Returns the name of an operation in the conventions. A turn in any protocol is a chat."""
    return next((name for name, ours in _OPERATION_NAMES.items() if operation in ours), "chat")


def provider_name(name: str) -> str:
    """Returns the name of a provider in the conventions."""
    found = find_provider(name)
    return (found.telemetry_name if found is not None else "") or name


def clean_attributes(fields: Mapping[str, Any], secrets: Iterable[str] = ()) -> dict[str, AttributeValue]:
    """Returns the attributes that have a value. Texts are cut and redacted."""
    known = tuple(secrets)
    return {
        name: redact_cut(value, MAX_ATTRIBUTE, known) if isinstance(value, str) else value
        for name, value in fields.items()
        if value not in (None, "") and value != []
    }


def usage_attributes(usage: Usage | None) -> dict[str, Any]:
    """Returns the attributes of token counts."""
    return {f"gen_ai.usage.{name}": getattr(usage, field, None) for field, name in _USAGE_ATTRIBUTES.items()}


def server_attributes(url: str) -> dict[str, Any]:
    """Returns the host and port of a URL, and nothing else of it: a query may hold a key."""
    from urllib.parse import urlsplit  # noqa: PLC0415 — most programs have no spans

    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return {}
    return {"server.address": parts.hostname, "server.port": port} if parts.hostname else {}


def error_type(error: BaseException | Fault) -> str:
    """Returns the kind of a fault, or the name of an exception's class."""
    kind = error.kind if isinstance(error, ProviderError) else getattr(error, "kind", "")
    return kind or type(error).__qualname__


def is_observed() -> bool:
    """True if the program uses OpenTelemetry: it has imported it, and an SDK is set.

    Other libraries import its API, too. Without an SDK the providers are proxies, which record nothing.
    """
    trace, metrics = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.metrics")
    return (trace is not None and not _is_proxy(trace.get_tracer_provider())) or (
        metrics is not None and not _is_proxy(metrics.get_meter_provider())
    )


def _is_proxy(provider: object) -> bool:
    return type(provider).__name__ in ("ProxyTracerProvider", "_ProxyMeterProvider")


class CallSpan:
    """The span and the metrics of one call. Without OpenTelemetry in the program nothing happens.

    It begins when it is created, below the caller's current span.
    """

    def __init__(self, operation: str, model: str, request: Request | None = None, *, url: str = "") -> None:
        self._trace = sys.modules.get("opentelemetry.trace")
        self._started = time.monotonic()
        self._first: float | None = None
        self._stream = request is not None and request.stream
        self.attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation_name(operation),
            "gen_ai.request.model": model,
            **server_attributes(url),
        }
        self._span: Any = None
        if self._trace is not None:
            name = redact_cut(f"{self.attributes['gen_ai.operation.name']} {model}".strip(), MAX_ATTRIBUTE)
            self._span = self._trace.get_tracer(SCOPE, __version__).start_span(
                name, kind=self._trace.SpanKind.CLIENT, attributes=clean_attributes(self.attributes)
            )
            if request is not None and self.recording:
                self.set(**_request_attributes(request))

    @property
    def recording(self) -> bool:
        """True if somebody wants the attributes."""
        return self._span is not None and self._span.is_recording()

    def activate(self) -> AbstractContextManager[Any]:
        """Makes the span the current one inside a `with` block: spans of the HTTP client become its children."""
        if self._trace is None:
            return nullcontext()
        # The error of the call is set by `end`, once.
        active: AbstractContextManager[Any] = self._trace.use_span(
            self._span, record_exception=False, set_status_on_exception=False
        )
        return active

    def set(self, **attributes: Any) -> None:
        """Sets attributes. Those without a value are left out."""
        if self.recording:
            self._span.set_attributes(clean_attributes(attributes))

    def set_content(self, attributes: Mapping[str, str]) -> None:
        """Sets attributes with content. They are redacted, but not cut."""
        if self.recording:
            self._span.set_attributes(dict(attributes))

    def note_first_chunk(self) -> None:
        """The first content has arrived."""
        if self._first is None:
            self._first = time.monotonic() - self._started

    @property
    def first_chunk(self) -> float | None:
        """Seconds to the first content."""
        return self._first

    def end(
        self, *, provider: str, model: str, usage: Usage | None, error: BaseException | Fault | None = None, **more: Any
    ) -> None:
        """Ends the span and records the metrics. `more` are further attributes."""
        shared: dict[str, Any] = {
            **self.attributes,
            "gen_ai.provider.name": provider_name(provider) or "unknown",
            "gen_ai.response.model": model,
            "error.type": error_type(error) if error is not None else None,
        }
        shared |= {name: more.pop(name) for name in ("server.address", "server.port") if name in more}
        first = self._first if self._stream else None
        if self._span is not None:
            self.set(**shared, **usage_attributes(usage), **{"gen_ai.response.time_to_first_chunk": first}, **more)
            if error is not None and self._trace is not None:
                self._span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, shared["error.type"]))
            self._span.end()
        if (metrics := sys.modules.get("opentelemetry.metrics")) is not None:
            record_metrics(metrics, clean_attributes(shared), time.monotonic() - self._started, first, usage)


def _request_attributes(request: Request) -> dict[str, Any]:
    settings = request.settings
    fields = {f"gen_ai.request.{name}": getattr(settings, field) for field, name in _REQUEST_ATTRIBUTES.items()}
    fields["gen_ai.request.choice.count"] = settings.choices if settings.choices != 1 else None
    fields["gen_ai.request.stream"] = request.stream or None
    fields["gen_ai.output.type"] = _OUTPUT_TYPES.get(settings.format.kind) if settings.format else None
    return fields


# ── metrics ───────────────────────────────────────────────────────────────────────────────────────

_DURATION_BUCKETS = [0.01 * 2**power for power in range(14)]
_FIRST_CHUNK_BUCKETS = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0]
_TOKEN_BUCKETS = [4**power for power in range(14)]


class ClientMetrics:
    """The instruments of one meter provider."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider

    @cached_property
    def _meter(self) -> Any:
        return self.provider.get_meter(SCOPE, __version__)

    @cached_property
    def duration(self) -> Any:
        return self._histogram("operation.duration", "s", "GenAI operation duration.", _DURATION_BUCKETS)

    @cached_property
    def first_chunk(self) -> Any:
        about = "Time to receive the first chunk of a streamed response."
        return self._histogram("operation.time_to_first_chunk", "s", about, _FIRST_CHUNK_BUCKETS)

    @cached_property
    def tokens(self) -> Any:
        return self._histogram("token.usage", "{token}", "Number of input and output tokens used.", _TOKEN_BUCKETS)

    def _histogram(self, name: str, unit: str, about: str, buckets: list[Any]) -> Any:
        return self._meter.create_histogram(
            f"gen_ai.client.{name}", unit, about, explicit_bucket_boundaries_advisory=buckets
        )


_instruments: list[ClientMetrics] = []  # of the current meter provider; a second set of instruments is an SDK warning


def record_metrics(
    metrics: Any, attributes: Mapping[str, Any], duration: float, first_chunk: float | None, usage: Usage | None
) -> None:
    """Records one call with the program's meter provider."""
    provider = metrics.get_meter_provider()
    if not _instruments or _instruments[0].provider is not provider:
        _instruments[:] = [ClientMetrics(provider)]
    found = _instruments[0]
    found.duration.record(duration, attributes)
    if first_chunk is not None:
        found.first_chunk.record(first_chunk, attributes)
    for kind in ("input", "output"):
        if (count := getattr(usage, kind, None)) is not None:
            found.tokens.record(count, {**attributes, "gen_ai.token.type": kind})


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


class ToolSpan:
    """The span of one run of a tool."""

    def __init__(self, span: Any = None, trace: Any = None, *, content: bool = False) -> None:
        self._span, self._trace, self._content = span, trace, content

    def set_result(self, result: Any, *, failed: bool = False) -> None:
        """Sets the result, if the span has content; and whether the tool has failed."""
        if self._span is None:
            return
        if self._content:
            self._span.set_attributes(write_tool_content(result=result))
        if failed:
            self.set_error("tool_error")

    def set_error(self, kind: str) -> None:
        """Marks the span as failed."""
        if self._span is not None:
            self._span.set_attribute("error.type", kind)
            self._span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, kind))


class ToolSpanFactory(Protocol):
    """Creates the span of a tool: `tool_span`, or with the settings of a client."""

    def __call__(
        self, name: str, call: str = "", /, *, description: str = "", arguments: Any = None
    ) -> AbstractContextManager[ToolSpan]: ...


@contextmanager
def tool_span(
    name: str, call: str = "", *, description: str = "", arguments: Any = None, content: bool = False
) -> Generator[ToolSpan]:
    """Makes an `execute_tool` span the current one while a tool runs: what the tool does becomes its child.

    An exception ends it as an error and is raised. `content`: arguments and results are in the span.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield ToolSpan()
        return
    attributes = clean_attributes(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.description": description,
        }
    )
    if content and arguments is not None:
        attributes |= write_tool_content(arguments=arguments)
    tracer = trace.get_tracer(SCOPE, __version__)
    with tracer.start_as_current_span(
        redact_cut(f"execute_tool {name}", MAX_ATTRIBUTE),
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        found = ToolSpan(span, trace, content=content)
        try:
            yield found
        except BaseException as error:
            found.set_error(error_type(error))
            raise
