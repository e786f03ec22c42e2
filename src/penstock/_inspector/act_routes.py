"""The inspector's routes that act on a request: copy it as a command, convert it to another protocol."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from penstock._gateway.callers import make_refusal
from penstock._inspector.api_router import ApiResponse, encode_public, encode_redacted, redact_json_text
from penstock._inspector.copied_commands import CopiedRequest, write_command
from penstock._inspector.request_conversion import convert_body, parse_request_body
from penstock._inspector.request_reasons import NO_REQUEST
from penstock._redaction import MARK, is_secret_name
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services
    from penstock._inspector.file_inspector import WorkerSlots
    from penstock._inspector.stream_traces import TraceSource

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]{1,255}")
# Headers of a client that change what its request means.
_MEANING = ("anthropic-version", "anthropic-beta", "openai-beta")
_OWN_HEADERS = "x-penstock-"
_TRUE = frozenset({"1", "true"})


class MeaningHeaders(msgspec.Struct):
    """The headers of a request that change what it means. `removed`: the names of those that held a secret."""

    headers: dict[str, str]
    removed: list[str]


class ActRoutes:
    """The routes. `find_request` returns a turn that the caller may see, and the headers of its request."""

    def __init__(
        self,
        services: Services,
        work: WorkerSlots,
        find_request: Callable[[IncomingRequest], tuple[TraceSource, dict[str, str]]],
    ) -> None:
        self._services, self._work, self._find_request = services, work, find_request

    async def copy(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/turns/ID/copy?as=curl`: the turn's request as a command or a program."""
        return await self._work.run(lambda: self._copy(incoming))

    def _copy(self, incoming: IncomingRequest) -> ApiResponse:
        source, headers = self._find_request(incoming)
        if not source.request or source.request_cut or source.row is None:
            raise make_refusal(404, "not-found", source.request_lost or NO_REQUEST, code="request_not_kept")
        secrets = [*self._services.secrets, *source.secrets]
        row, query = source.row, incoming.query
        forwarded = self._services.config.access.keys == "forward" and not row.key
        request = CopiedRequest(
            protocol=source.request_protocol or row.protocol,
            path=redact_json_text(row.route, secrets),
            body=redact_json_text(source.request, secrets),
            base=_gateway_address(incoming),
            model=row.asked,
            stream=row.stream,
            keyed=self._services.access.keyed or forwarded,
            operation=row.operation,
            headers=_meaningful_headers(headers),
        )
        return ApiResponse(encode_redacted(write_command(query.get("as", "curl"), request), secrets))

    async def headers(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/turns/ID/headers`: what is sent again besides the body. Without a kept request none."""
        return await self._work.run(lambda: self._headers(incoming))

    def _headers(self, incoming: IncomingRequest) -> ApiResponse:
        source, headers = self._find_request(incoming)
        removed = [name.lower() for name, value in headers.items() if MARK in value and _changes_meaning(name.lower())]
        found = MeaningHeaders(_meaningful_headers(headers), [name for name in removed if not is_secret_name(name)])
        return ApiResponse(encode_redacted(found, [*self._services.secrets, *source.secrets]))

    async def convert(self, incoming: IncomingRequest) -> ApiResponse:
        """`POST /inspector/convert?from=&to=&model=&stream=`: the body in another protocol, and what is lost.

        The answer holds nothing but what the caller has sent, so it is not redacted: it is what will be sent.
        """
        query, raw = incoming.query, incoming.raw
        stream = query["stream"] in _TRUE if query.get("stream") else None

        def run() -> bytes:
            body, model = parse_request_body(raw), query.get("model", "")
            source, target = query.get("from", ""), query.get("to", "")
            return encode_public(convert_body(body, source, target, model=model, stream=stream))

        return ApiResponse(await self._work.run(run, len(raw)))


def _gateway_address(incoming: IncomingRequest) -> str:
    """Returns the address of the gateway as the caller knows it: `base`, else the Host header."""
    base = incoming.query.get("base") or f"http://{incoming.headers.get('host', '127.0.0.1:4480')}"
    if not _ORIGIN.fullmatch(base):
        raise InputError("base: expected the address of a gateway, such as http://127.0.0.1:4480")
    return base


def _meaningful_headers(headers: dict[str, str]) -> dict[str, str]:
    """Returns the headers that change what the request means; none that held a secret."""
    lowered = {name.lower(): value for name, value in headers.items() if MARK not in value}
    return {name: text for name, text in lowered.items() if _changes_meaning(name)}


def _changes_meaning(name: str) -> bool:
    """True for the headers of `_MEANING` and the gateway's own; the name is in lower case."""
    return name in _MEANING or name.startswith(_OWN_HEADERS)
