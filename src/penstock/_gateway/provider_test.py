"""The admin API's test of a provider: one request, and in words what came of it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._client.key_check import CHECK_TOKENS, NO_LIST, ModelNotAskedError, send_key_check
from penstock._gateway.callers import make_refusal
from penstock._gateway.endpoints.vscode_providers import explain_check_failure
from penstock._providers.registry import providers
from penstock._redaction import redact
from penstock.errors import PenstockError, ProviderError

if TYPE_CHECKING:
    from penstock._engines.config import Config
    from penstock._gateway.admin_calls import AdminCall
    from penstock._providers.registry import Provider

MAX_CHECKS = 4  # requests to providers at once
SKIP_TEST_HINT = "To store it all the same, leave out the test."
NO_LIST_KIND = "no-list"  # of a test: only an answer of a model proves that the provider works
check_slots: threading.BoundedSemaphore = threading.BoundedSemaphore(MAX_CHECKS)


class ProviderTestOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`ask_model`: where a list of models proves nothing, a model is asked for an answer of a few tokens."""

    ask_model: bool = True


class ProviderTest(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one request. `kind` names the error. `seconds`: how long it took.

    `model`: the model to ask, if the kind is `no-list`: only an answer of a model proves that the provider works.
    """

    ok: bool
    kind: str
    message: str
    seconds: float
    model: str = ""


def send_test_request(
    call: AdminCall, row: Provider, config: Config, key: str = "", *, ask_model: bool = True
) -> ProviderTest:
    """Send one request to a provider, and return in words what came of it."""
    if not check_slots.acquire(blocking=False):
        message = f"{MAX_CHECKS} providers are being tested: try again"
        raise make_refusal(503, "overloaded", message, code="busy", retry_after=2.0)
    began = time.monotonic()
    secrets = [*filter(None, [key]), *call.services.secrets]
    try:
        proof, _ = asyncio.run(send_key_check(row, config, call.services.env, ask_model=ask_model))
        found = {"ok": True, "kind": "", "message": f"{row.title} answers: {proof}."}
    except PenstockError as error:
        found = _explain_missing_list(error, row, config) or explain_check_failure(
            error, row.title, lambda text: redact(text, secrets).rstrip(". ")
        )
    finally:
        check_slots.release()
    return msgspec.convert({**found, "seconds": round(time.monotonic() - began, 3)}, ProviderTest)


def _explain_missing_list(error: PenstockError, row: Provider, config: Config) -> dict[str, Any]:
    """Return what to do about a provider whose list of models proves nothing; nothing for another error."""
    found = {"ok": False, "kind": NO_LIST_KIND}
    if isinstance(error, ModelNotAskedError):
        ask = f"To test it, ask {error.model} for an answer of at most {CHECK_TOKENS} tokens."
        return {**found, "message": f"{row.title} was not tested: {error}. {ask}", "model": error.model}
    own = row.name not in providers()
    if not own or not isinstance(error, ProviderError) or error.status not in NO_LIST:
        return {}
    if config.account(row.name).models:
        return {}
    fix = f"If the address is right, name one of its models: a test then asks it for at most {CHECK_TOKENS} tokens."
    return {**found, "message": f"{row.title} gives no list of models ({error.status}). {fix}"}
