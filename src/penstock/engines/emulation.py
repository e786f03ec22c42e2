"""What a provider has no word for: had another way where there is one, refused where half would mislead, else told.

Stop sequences are met by cutting the answer, JSON of any shape is asked for in words; several choices are refused. What
is left is `losses`: names for the client to read. Leans on the diagnostics of `penstock.messages`; sends nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock import request as rq
from penstock.diagnostics import Diagnostic
from penstock.errors import provider_error
from penstock.events import Fault
from penstock.messages.context import estimate_tokens
from penstock.messages.settings import LOSS, REFUSED, changed_meaning, lost
from penstock.protocols import protocol
from penstock.transforms.stop_sequences import StopAtSequences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engines.interface import Job
    from penstock.errors import ProviderError

__all__ = ["LOSS", "REFUSED", "fill", "lost", "several", "worded"]
UNSUPPORTED = "unsupported_parameter"  # the code of a no that is this provider's own
PROMPTS = "several-prompts"
LISTED = frozenset({"completions", "fim"})  # operations whose prompt may be a list
SUBSTITUTES: dict[str, str] = {
    "stop": "stop sequences are not sent: the answer is cut where one begins, and its provider let go",
    "any-json": "an answer of any JSON is asked for in a system message",
}
JSON = "Answer with one valid JSON object and nothing else: no other words before or after it, and no code fence."


def worded(request: rq.Request) -> rq.Request:
    """The request with its wish for JSON in words."""
    settings = replace(request.settings, format=None)
    leading = next((n for n, one in enumerate(request.messages) if one.role != "system"), len(request.messages))
    told = rq.Message("system", [rq.Text(JSON)])
    messages = [*request.messages[:leading], told, *request.messages[leading:]]
    return replace(request, messages=messages, settings=settings)


def _stops(request: rq.Request, client: str) -> StopAtSequences:
    """Returns the stage that ends the answer at a stop sequence, and names it where the client's protocol does."""
    row = protocol(client) if client else None
    fields = {row.name: row.stop_sequence_field} if row is not None and row.stop_sequence_field else {}
    return StopAtSequences(request.settings.stop, lambda: sum(map(estimate_tokens, request.messages)), fields)


def fill(job: Job, request: rq.Request, carried: Sequence[str] = (), *, strict: bool = False, client: str = "") -> None:
    """Put what stands in for lost settings into a job, and say what is left; or refuse it.

    `client` is the protocol in which the client reads the answer.
    """
    names = [name for name in lost(job.diagnostics, request.settings) if name not in carried]
    if "choices" in names:
        raise several(job, f"n: {job.provider.name} gives one answer to a request, not {request.settings.choices}")
    if job.operation not in LISTED and any(row.code == PROMPTS for row in job.diagnostics):
        raise several(job, f"prompt: {job.provider.name} takes one prompt at a time, not a list")
    if "stop" in names:
        names.remove("stop")
        carried = [*carried, "stop"]
        job.shaping = (*job.shaping, _stops(request, client))
    job.losses = tuple(names)
    if strict:
        _refuse_losses(job, [name for name in changed_meaning(job.diagnostics, request.settings) if name in names])
    if carried:
        rows = [row for row in job.diagnostics if (row.name or row.code.removeprefix(LOSS)) not in carried]
        told = [Diagnostic(f"carried-{name}", SUBSTITUTES[name], job.provider.name) for name in carried]
        job.diagnostics = [*rows, *told]


def _refuse_losses(job: Job, names: Sequence[str]) -> None:
    """No to a request whose answer would mean something else, for callers who are strict about it."""
    if names:
        why = f"{job.provider.name} cannot carry what changes the result: {', '.join(names)}"
        fault = Fault("invalid", f"{why}; leave it out, or switch strict off", status=400, code=UNSUPPORTED)
        raise provider_error(fault, provider=job.provider.name, model=job.model)


def several(job: Job, why: str) -> ProviderError:
    """No to a wish for several answers: one of them alone would be taken for all."""
    fault = Fault("invalid", f"{why}; send a request for each", status=400, code=UNSUPPORTED)
    return provider_error(fault, provider=job.provider.name, model=job.model)
