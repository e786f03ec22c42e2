"""Emulates settings that a provider lacks; refuses a request where half of it would mislead; reports the rest as lost.

Stop sequences: the answer is cut. JSON of any shape: a system message asks for it. Several choices: refused. All other
settings that the conversion lost are named in `UpstreamRequest.losses`, for the client to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock import request as rq
from penstock._diagnostics import Diagnostic
from penstock._messages.context_trimming import estimate_tokens
from penstock._messages.settings import LOSS, REFUSED, changed_meaning, lost_settings
from penstock._protocols import protocol
from penstock._transforms.stop_sequences import StopAtSequences
from penstock.errors import ProviderError, provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._engines.engine_interface import UpstreamRequest

__all__ = ["LOSS", "REFUSED", "apply_emulations", "lost_settings", "multiple_answers_error", "request_json_by_prompt"]
UNSUPPORTED = "unsupported_parameter"  # the error code of a refusal that another provider may not share
SEVERAL_PROMPTS = "several-prompts"
PROMPT_LIST_OPERATIONS = frozenset({"completions", "fim"})  # operations whose prompt may be a list
EMULATIONS: dict[str, str] = {
    "stop": "stop sequences are not sent: the answer is cut where one begins, and its provider let go",
    "any-json": "an answer of any JSON is asked for in a system message",
}
JSON_INSTRUCTION = (
    "Answer with one valid JSON object and nothing else: no other words before or after it, and no code fence."
)


def request_json_by_prompt(request: rq.Request) -> rq.Request:
    """Returns the request with a system message that asks for JSON, in place of the response format."""
    settings = replace(request.settings, format=None)
    leading = next((n for n, one in enumerate(request.messages) if one.role != "system"), len(request.messages))
    instruction = rq.Message("system", [rq.Text(JSON_INSTRUCTION)])
    messages = [*request.messages[:leading], instruction, *request.messages[leading:]]
    return replace(request, messages=messages, settings=settings)


def _stops(request: rq.Request, client: str) -> StopAtSequences:
    """Returns the stage that ends the answer at a stop sequence, and names it where the client's protocol does."""
    row = protocol(client) if client else None
    fields = {row.name: row.stop_sequence_field} if row is not None and row.stop_sequence_field else {}
    return StopAtSequences(request.settings.stop, lambda: sum(map(estimate_tokens, request.messages)), fields)


def apply_emulations(
    upstream: UpstreamRequest,
    request: rq.Request,
    carried: Sequence[str] = (),
    *,
    strict: bool = False,
    client: str = "",
) -> None:
    """Adds the emulations of lost settings to a request and names the other losses. Raises if the request is refused.

    `client` is the protocol in which the client reads the answer.
    """
    provider = upstream.provider.name
    names = [name for name in lost_settings(upstream.diagnostics, request.settings) if name not in carried]
    if "choices" in names:
        raise multiple_answers_error(
            upstream, f"n: {provider} gives one answer to a request, not {request.settings.choices}"
        )
    if upstream.operation not in PROMPT_LIST_OPERATIONS and any(
        row.code == SEVERAL_PROMPTS for row in upstream.diagnostics
    ):
        raise multiple_answers_error(upstream, f"prompt: {provider} takes one prompt at a time, not a list")
    if "stop" in names:
        names.remove("stop")
        carried = [*carried, "stop"]
        upstream.transforms = (*upstream.transforms, _stops(request, client))
    upstream.losses = tuple(names)
    changed = (
        [name for name in changed_meaning(upstream.diagnostics, request.settings) if name in names] if strict else []
    )
    if changed:
        why = f"{provider} cannot carry what changes the result: {', '.join(changed)}"
        raise _refusal(upstream, f"{why}; leave it out, or switch strict off")
    if carried:
        rows = [row for row in upstream.diagnostics if (row.name or row.code.removeprefix(LOSS)) not in carried]
        emulated = [Diagnostic(f"carried-{name}", EMULATIONS[name], provider) for name in carried]
        upstream.diagnostics = [*rows, *emulated]


def multiple_answers_error(upstream: UpstreamRequest, why: str) -> ProviderError:
    """Returns the error for a request for several answers: a single one could be taken for all."""
    return _refusal(upstream, f"{why}; send a request for each")


def _refusal(upstream: UpstreamRequest, message: str) -> ProviderError:
    fault = Fault("invalid", message, status=400, code=UNSUPPORTED)
    return provider_error(fault, provider=upstream.provider.name, model=upstream.model)
