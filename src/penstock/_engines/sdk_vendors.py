"""The vendors' SDKs behind one interface: create a client, send a request, return its objects as plain JSON.

`sdk_vendors.toml` says what each SDK can do. Only this module knows their API; the packages are the extra `sdk`.
"""

from __future__ import annotations

import tomllib
import warnings
from abc import ABC, abstractmethod
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
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

    from penstock._engines.engine_interface import HttpRequest, UpstreamRequest

_KEY = "held-by-penstock"  # the clients require a key; the real one is in the signed headers
_SDK_HEADERS = ("Authorization", "X-Api-Key")
_MODELS_PATH = "/models"  # where Google's URLs are split into a base URL and a path
_captured: ContextVar[list[Any] | None] = ContextVar("captured", default=None)


async def capture_response(response: Any) -> None:
    """The hook of an HTTP client: keeps the response of the request that this task sends."""
    captured = _captured.get()
    if captured is not None:
        captured.append(response)


def start_capture() -> list[Any]:
    """Returns the list that `capture_response` appends this task's responses to from now on."""
    captured: list[Any] = []
    _captured.set(captured)
    return captured


class SdkCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a vendor's SDK can do. `sdk_vendors.toml` describes the fields."""

    package: str
    client: str = ""
    streams: dict[str, str]
    bodies: dict[str, str]
    fetches: dict[str, str]
    operations: frozenset[str]
    schemes: frozenset[str] = frozenset({"none", "bearer", "header", "google", "ibm"})
    oldest: int
    newest: int | None = None

    def type_names(self, protocol: str) -> list[str]:
        """Returns all types of a protocol."""
        return list(filter(None, (names.get(protocol) for names in (self.streams, self.bodies, self.fetches))))

    def version_problem(self, distribution: str) -> str:
        """Returns why the installed version cannot be used; empty if it can."""
        major = _major(distribution)
        if self.oldest <= major <= (major if self.newest is None else self.newest):
            return ""
        known = f"{self.oldest}" if self.newest == self.oldest else f"{self.oldest} and later"
        return f"version {major} of {distribution} is not known, only {known}"


_CAPABILITIES = msgspec.convert(
    tomllib.loads(files("penstock._engines").joinpath("sdk_vendors.toml").read_text("utf-8")),
    dict[str, SdkCapabilities],
)


@cache
def _major(package: str) -> int:
    return int(version(package).partition(".")[0])


class VendorSdk(ABC):
    """One vendor's client over one HTTP client."""

    capabilities: ClassVar[SdkCapabilities]

    @abstractmethod
    def __init__(self, http: Any) -> None: ...

    @classmethod
    def http_library(cls) -> Any:
        """Returns the HTTP library that the client is built on."""
        return import_module("httpx2" if find_spec("httpx2") else "httpx")

    @classmethod
    @abstractmethod
    def load(cls, job: UpstreamRequest) -> None:
        """Imports what the job needs, which takes seconds the first time."""

    @abstractmethod
    async def stream(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, AsyncIterator[Any]]:
        """Returns the HTTP response and an iterator of its payloads."""

    @abstractmethod
    async def send(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, Any]:
        """Returns the HTTP response and the payload of a turn that is not streamed."""

    @abstractmethod
    async def fetch(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, bytes]:
        """Returns the HTTP response and the body of a request that is not a turn."""

    @classmethod
    def url_problem(cls, url: str) -> str:  # noqa: ARG003 — for subclasses
        """Returns why the client cannot send to this URL; empty if it can."""
        return ""

    @abstractmethod
    def error_payload(self, error: Exception) -> Any:
        """Returns the payload of an error that was part of the stream; None for any other error."""


class GeneratedSdk(VendorSdk):
    """OpenAI's and Anthropic's clients: the same generator made them."""

    def __init__(self, http: Any) -> None:
        self._sdk = import_module(self.capabilities.package)
        self._client = getattr(self._sdk, self.capabilities.client)(
            api_key=_KEY, base_url="http://unused.invalid", http_client=http, max_retries=0
        )

    @classmethod
    def load(cls, job: UpstreamRequest) -> None:
        import_module(cls.capabilities.package)
        for name in cls.capabilities.type_names(job.protocol):
            _build_type(cls._find_type(name))

    @classmethod
    def http_library(cls) -> Any:
        classes = import_module(cls.capabilities.package).DefaultAsyncHttpxClient.__mro__
        packages = (one.__module__.partition(".")[0] for one in classes)
        return import_module(next(name for name in packages if name.startswith("httpx")))

    @classmethod
    def _find_type(cls, name: str) -> Any:
        module, _, name = name.partition(":")
        return getattr(import_module(f"{cls.capabilities.package}.types.{module}".rstrip(".")), name)

    async def stream(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, AsyncIterator[Any]]:
        shape = self._find_type(self.capabilities.streams[job.protocol])
        stream = await self._send(out, job, cast_to=shape, stream=True, stream_cls=self._sdk.AsyncStream[shape])
        return stream.response, _iterate_json(stream)

    async def send(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, Any]:
        return await self._read(out, job, self.capabilities.bodies[job.protocol])

    async def fetch(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, bytes]:
        response, payload = await self._read(out, job, self.capabilities.fetches[job.protocol])
        return response, msgspec.json.encode(payload)

    async def _read(self, out: HttpRequest, job: UpstreamRequest, type_name: str) -> tuple[Any, Any]:
        captured = start_capture()
        payload = await self._send(out, job, cast_to=self._find_type(type_name) if type_name else object)
        return captured[-1], _to_json(payload)

    async def _send(self, out: HttpRequest, job: UpstreamRequest, **more: Any) -> Any:
        # `Omit` removes the headers that the SDK would fill with the made-up key.
        omitted = dict.fromkeys((name for name in _SDK_HEADERS if name.lower() not in out.headers), self._sdk.Omit())
        options = {"headers": {**omitted, **out.headers}}
        if out.method == "GET":
            return await self._client.get(out.url, options=options, **more)
        return await self._client.post(out.url, body=replace_deep_inputs(job.body), options=options, **more)


class OpenAiSdk(GeneratedSdk):
    """Chat Completions, Responses and Completions, of OpenAI and compatible providers."""

    capabilities = _CAPABILITIES["openai"]

    def error_payload(self, error: Exception) -> Any:
        body: Any = getattr(error, "body", None)
        return {"error": body} if body is not None and getattr(error, "response", None) is None else None


class AnthropicSdk(GeneratedSdk):
    """Messages."""

    capabilities = _CAPABILITIES["anthropic"]

    def error_payload(self, error: Exception) -> Any:
        response: Any = getattr(error, "response", None)
        return getattr(error, "body", None) if response is not None and response.status_code // 100 == 2 else None  # noqa: PLR2004


class GoogleSdk(VendorSdk):
    """generateContent, of Gemini and of Vertex.

    The SDK's typed layer drops fields that it does not know, errors in a stream included. So the private layer below it
    is used, and only in the versions that were tested; for other versions the native engine is used.
    """

    capabilities = _CAPABILITIES["google-genai"]

    def __init__(self, http: Any) -> None:
        sdk, types = import_module("google.genai"), import_module("google.genai.types")
        self._options = types.HttpOptions
        client = sdk.Client(api_key=_KEY, vertexai=False, http_options=types.HttpOptions(httpx_async_client=http))
        self._api = client._api_client  # noqa: SLF001 — see above
        self._api._http_options.headers.pop("x-goog-api-key", None)  # noqa: SLF001 — made up; ours is signed
        self._client = client  # its destructor closes what it created

    @classmethod
    def load(cls, job: UpstreamRequest) -> None:  # noqa: ARG003 — as the others
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its source causes warnings when it is compiled
            import_module("google.genai.types")

    @classmethod
    def url_problem(cls, url: str) -> str:
        return "" if _MODELS_PATH in url else "the SDK cannot be sent to that address"

    async def stream(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, AsyncIterator[Any]]:
        captured = start_capture()
        stream = await self._api.async_request_streamed(*self._request(out, job))
        return captured[-1], _iterate_bodies(stream)

    async def send(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, Any]:
        response, body = await self.fetch(out, job)
        return response, msgspec.json.decode(body)

    async def fetch(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, bytes]:
        captured = start_capture()
        response = await self._api.async_request(*self._request(out, job))
        return captured[-1], response.body.encode()

    def _request(self, out: HttpRequest, job: UpstreamRequest) -> tuple[Any, ...]:
        base_url, _, rest = out.url.rpartition(_MODELS_PATH)
        options = self._options(base_url=base_url, api_version="", headers=out.headers)
        body = dict(replace_deep_inputs(job.body)) if out.method == "POST" else {}
        return out.method.lower(), _MODELS_PATH[1:] + rest, body, options

    def error_payload(self, error: Exception) -> Any:
        return as_object(getattr(error, "details", None)) or None


VENDOR_SDKS: Mapping[str, type[VendorSdk]] = {"openai": OpenAiSdk, "anthropic": AnthropicSdk, "google-genai": GoogleSdk}


def _build_type(shape: Any) -> None:
    """Builds a type's validators now: built on first use, they would delay an answer by seconds."""
    if hasattr(shape, "model_rebuild"):
        shape.model_rebuild()
    for one in get_args(shape):
        _build_type(one)


def _to_json(payload: Any) -> Any:
    return payload.to_dict(mode="json", warnings=False) if hasattr(payload, "to_dict") else payload


async def _iterate_json(stream: Any) -> AsyncIterator[Any]:
    try:
        async for one in stream:
            yield _to_json(one)
    finally:
        await stream.close()


async def _iterate_bodies(stream: Any) -> AsyncIterator[Any]:
    try:
        async for one in stream:
            yield decode_bounded(one.body)
    except NestingError as error:
        raise provider_error(Fault("malformed", f"the provider's answer cannot be read: {error}")) from None
    finally:
        await stream.aclose()
