"""The passes that `penstock.messages.convert` makes over a request, one by one.

The one place of the tests that knows where they live.
"""

from typing import Any

from penstock._diagnostics import Diagnostics
from penstock._engines.model_resolution import resolve_targets
from penstock._engines.request_plan import build_request, plan_request
from penstock._http.request_options import RequestOptions
from penstock._markers import FREE_TEXT_KEY, SYSTEM_MARKS
from penstock._messages.call_pairing import UNANSWERED, Orphans, pair
from penstock._messages.carried_state import call_key, mark_key, state_keys_of, state_rows, text_key
from penstock._messages.content_rules import (
    Images,
    check_media,
    decoded_size,
    describe_file,
    detect_media_type,
    mend_inputs,
    mend_texts,
    place_files,
)
from penstock._messages.context_trimming import (
    CLEARED,
    Cleared,
    estimate_tokens,
    limit_points,
    manage_context,
    place_points,
)
from penstock._messages.identifiers import fit_ids, fit_names, map_ids, map_names, restore_prefix
from penstock._messages.settings import limit_output
from penstock._messages.turn_rules import (
    CONTINUE,
    EMPTY,
    OPENING,
    alternate,
    fill_empty,
    open_with_user,
    place_system,
    promote_system_prompt,
)
from penstock._request_profile import PLAIN, Empty, FileSupport, IdentifierRule, System
from penstock._transforms.tool_names import (
    INPUT,
    CallIdPrefix,
    OriginalTool,
    RestoreToolNames,
    unwrap_free_text,
    wrap_free_text,
)
from penstock.gateway import Config
from penstock.messages import read_request

__all__ = [
    "CLEARED",
    "CONTINUE",
    "EMPTY",
    "FREE_TEXT_KEY",
    "INPUT",
    "OPENING",
    "PLAIN",
    "SYSTEM_MARKS",
    "UNANSWERED",
    "CallIdPrefix",
    "Cleared",
    "Diagnostics",
    "Empty",
    "FileSupport",
    "IdentifierRule",
    "Images",
    "OriginalTool",
    "Orphans",
    "RestoreToolNames",
    "System",
    "alternate",
    "call_key",
    "check_media",
    "decoded_size",
    "describe_file",
    "detect_media_type",
    "estimate_tokens",
    "fill_empty",
    "fit_ids",
    "fit_names",
    "limit_output",
    "limit_points",
    "manage_context",
    "map_ids",
    "map_names",
    "mark_key",
    "mend_inputs",
    "mend_texts",
    "open_with_user",
    "pair",
    "place_files",
    "place_points",
    "place_system",
    "promote_system_prompt",
    "provider_body",
    "restore_prefix",
    "state_keys_of",
    "state_rows",
    "text_key",
    "unwrap_free_text",
    "wrap_free_text",
]  # fmt: skip


def provider_body(name: str, body: dict[str, Any]) -> dict[str, Any]:
    """What a provider's model is sent for a Chat request, by all that the gateway knows of both."""
    provider = name.partition("/")[0]
    config = Config.read({"providers": {provider: {"key": "k"}}})
    target = resolve_targets(name, config, {})[0]
    account = config.account(target.provider.name)
    plan = plan_request(target, "chat", options=RequestOptions(), account=account, env={}, stream=False)
    made: dict[str, Any] = build_request(read_request(body, "openai-chat"), plan, source="openai-chat", convert={}).body
    return made
