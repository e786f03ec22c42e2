"""The vendors' own clients, each behind the same few words: make one, ask it, read its objects as plain JSON.

What each can do is data (`VENDORS`). Only this file knows their names for things; the packages are the extra `sdk`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import msgspec

from penstock._input_limits import NestingError, decode_bounded
from penstock._lenient_fields import as_object
from penstock._markers import replace_deep_inputs
from penstock.errors import provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from penstock._engines.interface import HttpRequest, UpstreamRequest

_KEY = "held-by-penstock"  # the clients want one; the real one comes with the signed headers

_THEIRS = ("Authorization", "X-Api-Key")
_PLACE = "/models"  # where Google's addresses part into a root and a path
_kept: ContextVar[list[Any] | None] = ContextVar("kept", default=None)


async def capture_response(response: Any) -> None:
    """A hook for an HTTP client: the response of the request that this task is making."""
    kept = _kept.get()
    if kept is not None:
        kept.append(response)


class SdkCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a vendor's client can do: the types of payloads and bodies by protocol; no type: it is read as it is.

    `fetches` are the shapes of what is no turn. `oldest` and `newest` are the major versions that the parity tests were
    run with, `newest` only where what is used is not public.
    """

    package: str
    streams: dict[str, str]
    wholes: dict[str, str]
    fetches: dict[str, str]
    operations: frozenset[str]
    schemes: frozenset[str] = frozenset({"none", "bearer", "header", "google", "ibm"})
    oldest: int
    newest: int | None = None

    def types(self, protocol: str) -> list[str]:
        """All types of a protocol or shape."""
        found = (rows.get(protocol) for rows in (self.streams, self.wholes, self.fetches))
        return [place for place in found if place]

    def unknown(self, distribution: str) -> str:
        """Why the version that is installed will not do; nothing where it will."""
        major = _major(distribution)
        if self.oldest <= major <= (major if self.newest is None else self.newest):
            return ""
        known = f"{self.oldest}" if self.newest == self.oldest else f"{self.oldest} and later"
        return f"version {major} of {distribution} is not known, only {known}"


@cache
def _major(package: str) -> int:
    return int(version(package).partition(".")[0])


class VendorSdk(ABC):
    """One vendor's client over one HTTP client."""

    ability: ClassVar[SdkCapabilities]

    def __init__(self, http: Any) -> None:
        self._http = http

    @classmethod
    def web(cls) -> Any:
        """The HTTP library that the client is built on."""
        return import_module("httpx2" if find_spec("httpx2") else "httpx")

    @classmethod
    def load(cls, job: UpstreamRequest) -> None:  # noqa: ARG003 — what is imported may depend on it
        """Import what the job needs: seconds, the first time."""
        import_module(cls.ability.package)

    @abstractmethod
    async def stream(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, AsyncIterator[Any]]:
        """The HTTP response, and the payloads as they come."""

    @abstractmethod
    async def whole(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, Any]:
        """The HTTP response, and the one payload."""

    @abstractmethod
    async def fetch(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, bytes]:
        """The HTTP response, and the body of something that is no turn."""

    @classmethod
    def missing(cls, job: UpstreamRequest) -> str:  # noqa: ARG003 — the same
        """Why this address will not do; nothing where it will."""
        return ""

    def in_band(self, error: Exception, *, begun: bool) -> Any:
        """The payload behind an error that stood in the stream; None where it did not."""
        return None


class _Generated(VendorSdk):
    """OpenAI's and Anthropic's clients are made by the same generator, and share its ways."""

    module: ClassVar[str]
    client: ClassVar[str]
    types: ClassVar[str]

    def __init__(self, http: Any) -> None:
        super().__init__(http)
        self._sdk = import_module(self.module)
        self._client = getattr(self._sdk, self.client)(
            api_key=_KEY, base_url="http://unused.invalid", http_client=http, max_retries=0
        )

    @classmethod
    def load(cls, job: UpstreamRequest) -> None:
        import_module(cls.module)
        for place in cls.ability.types(job.protocol):
            _build(_found(cls.types, place))

    @classmethod
    def web(cls) -> Any:
        kinds = import_module(cls.module).DefaultAsyncHttpxClient.__mro__
        roots = (kind.__module__.partition(".")[0] for kind in kinds)
        return import_module(next(root for root in roots if root.startswith("httpx")))

    async def stream(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, AsyncIterator[Any]]:
        shape = _found(self.types, self.ability.streams[job.protocol])
        made = await self._ask(out, job, cast_to=shape, stream=True, stream_cls=self._sdk.AsyncStream[shape])
        return made.response, _plainly(made)

    async def whole(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, Any]:
        return await self._read(out, job, self.ability.wholes[job.protocol])

    async def fetch(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, bytes]:
        response, made = await self._read(out, job, self.ability.fetches[job.protocol])
        return response, msgspec.json.encode(made)

    async def _read(self, out: HttpRequest, job: UpstreamRequest, place: str) -> tuple[Any, Any]:
        kept = start_capture()
        made = await self._ask(out, job, cast_to=_found(self.types, place) if place else object)
        return kept[-1], _plain(made)

    async def _ask(self, out: HttpRequest, job: UpstreamRequest, **more: Any) -> Any:
        # An authorization of our own or none: theirs would be the made-up key.
        without: dict[str, str | None] = {name: None for name in _THEIRS if name.lower() not in out.headers}
        options = {"headers": _omitted(self._sdk, {**without, **out.headers})}
        if out.method == "GET":
            return await self._client.get(out.url, options=options, **more)
        return await self._client.post(out.url, body=replace_deep_inputs(job.body), options=options, **more)


class OpenAiSdk(_Generated):
    """Chat Completions, Responses and Completions, of OpenAI and of all who imitate it."""

    module, client, types = "openai", "AsyncOpenAI", "openai.types"
    ability = SdkCapabilities(
        package="openai",
        oldest=3,
        streams={
            "openai-chat": "chat:ChatCompletionChunk",
            "responses": "responses:ResponseStreamEvent",
            "completions": ":Completion",
        },
        wholes={"openai-chat": "chat:ChatCompletion", "responses": "responses:Response", "completions": ":Completion"},
        fetches={"openai-embeddings": ":CreateEmbeddingResponse", "openai-models": ""},
        operations=frozenset({"chat", "responses", "completions", "fim"}),
    )

    def in_band(self, error: Exception, *, begun: bool) -> Any:
        body: Any = getattr(error, "body", None)
        return {"error": body} if body is not None and getattr(error, "response", None) is None else None


class AnthropicSdk(_Generated):
    """Messages."""

    module, client, types = "anthropic", "AsyncAnthropic", "anthropic.types"
    ability = SdkCapabilities(
        package="anthropic",
        oldest=2,
        streams={"anthropic": "beta:BetaRawMessageStreamEvent"},
        wholes={"anthropic": "beta:BetaMessage"},
        fetches={"anthropic-models": ""},
        operations=frozenset({"chat"}),
    )

    def in_band(self, error: Exception, *, begun: bool) -> Any:
        response: Any = getattr(error, "response", None)
        return getattr(error, "body", None) if response is not None and response.status_code // 100 == 2 else None  # noqa: PLR2004


class GoogleSdk(VendorSdk):
    """generateContent, of Gemini and of Vertex.

    Its typed layer drops what it has no field for, errors in a stream included, so the layer below it is used, which is
    not public: only the versions that were tried are used, and for others the native engine is asked.
    """

    ability = SdkCapabilities(
        package="google.genai",
        oldest=3,
        newest=3,
        streams={"gemini": ""},
        wholes={"gemini": ""},
        fetches={"gemini-embeddings": "", "vertex-embeddings": "", "gemini-models": ""},
        operations=frozenset({"chat"}),
    )

    def __init__(self, http: Any) -> None:
        super().__init__(http)
        sdk, types = import_module("google.genai"), import_module("google.genai.types")
        self._options = types.HttpOptions
        client = sdk.Client(api_key=_KEY, vertexai=False, http_options=types.HttpOptions(httpx_async_client=http))
        self._below = client._api_client  # noqa: SLF001 — see above
        self._below._http_options.headers.pop("x-goog-api-key", None)  # noqa: SLF001 — made up; ours is signed
        self._client = client  # it closes what it made when it goes

    @classmethod
    def load(cls, job: UpstreamRequest) -> None:  # noqa: ARG003
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns about its own source, once, when it is compiled
            import_module("google.genai.types")

    @classmethod
    def missing(cls, job: UpstreamRequest) -> str:
        return "" if _PLACE in job.url else "the SDK cannot be sent to that address"

    async def stream(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, AsyncIterator[Any]]:
        kept = start_capture()
        made = await self._below.async_request_streamed(*self._asked(out, job))
        return kept[-1], _bodies(made)

    async def whole(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, Any]:
        response, body = await self.fetch(out, job)
        return response, msgspec.json.decode(body)

    async def fetch(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, bytes]:
        kept = start_capture()
        made = await self._below.async_request(*self._asked(out, job))
        return kept[-1], made.body.encode()

    def _asked(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, ...]:
        root, _, rest = out.url.rpartition(_PLACE)
        options = self._options(base_url=root, api_version="", headers=out.headers)
        body = dict(replace_deep_inputs(job.body)) if out.method == "POST" else {}
        return out.method.lower(), _PLACE[1:] + rest, body, options

    def in_band(self, error: Exception, *, begun: bool) -> Any:
        details = as_object(getattr(error, "details", None))
        return details if begun and details else None


VENDOR_SDKS: Mapping[str, type[VendorSdk]] = {"openai": OpenAiSdk, "anthropic": AnthropicSdk, "google-genai": GoogleSdk}


def _found(types: str, place: str) -> Any:
    folder, _, name = place.partition(":")
    return getattr(import_module(f"{types}.{folder}" if folder else types), name)


def _build(shape: Any) -> None:
    """Types build themselves when they are first used, for seconds: now, rather than in the middle of an answer."""
    if hasattr(shape, "model_rebuild"):
        shape.model_rebuild()
    for one in get_args(shape):
        _build(one)


def _plain(payload: Any) -> Any:
    return payload.to_dict(mode="json", warnings=False) if hasattr(payload, "to_dict") else payload


async def _plainly(made: Any) -> AsyncIterator[Any]:
    try:
        async for one in made:
            yield _plain(one)
    finally:
        await made.close()


def _decoded(data: str) -> Any:
    try:
        return decode_bounded(data)
    except NestingError as error:
        raise provider_error(Fault("malformed", f"the provider's answer cannot be read: {error}")) from None


async def _bodies(made: Any) -> AsyncIterator[Any]:
    try:
        async for one in made:
            yield _decoded(one.body)
    finally:
        await made.aclose()


def start_capture() -> list[Any]:
    """Where `keep` puts what this task gets from now on."""
    made: list[Any] = []
    _kept.set(made)
    return made


def _omitted(sdk: Any, headers: dict[str, str | None]) -> dict[str, Any]:
    """The way these clients are told to leave out a header of theirs."""
    omit = sdk.Omit()
    return {name: omit if value is None else value for name, value in headers.items()}
