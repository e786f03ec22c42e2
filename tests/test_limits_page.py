"""docs/limits.md names every limit on input that the code has."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow
HERE = Path(__file__).parents[1]
SOURCE = HERE / "src" / "penstock"
PAGE = (HERE / "docs" / "limits.md").read_text(encoding="utf-8")
LIKE_A_LIMIT = re.compile(r"(^|_)(MAX|MOST|LIMIT|LARGEST|LONGEST)(_|$)|^(LINES|MEMBERS)$")
# Names that look like limits and are not about input: caches, times, what we write ourselves, and tools for tests.
OTHERS = {
    "provider_test.MAX_CHECKS",
    "client_names.MAX_AGENT",
    "client_names.MAX_NAME",
    "client_names._MAX_PRODUCTS",
    "client_names._MAX_READ",
    "copied_commands.MAX_ARGUMENT_BYTES",
    "program_text.MAX_EXACT_INTEGER",
    "function_tools._MAX_DESCRIPTIONS",
    "row_marks.MAX_MARKS",
    "postgres.MAX_WAITING_BYTES",
    "postgres.MAX_WAITING_JOBS",
    "postgres_stores.MAX_KNOWN_FACTORS",
    "postgres_stores.MAX_TRIMMED",
    "redis_streams.MAX_BLOCK",
    "request_pieces.MAX_PIECES",
    "work_pace.MAX_PAUSE",
    "turn_listeners.MAX_UNREAD",
    "redis_streams.MAX_CANCELS",
    "usage_bounds.MAX_OPTION_BYTES",
    "redis_streams.MAX_DELETIONS",
    "redis_streams.MAX_CONNECTIONS",
    "redis_streams.MAX_PAGES",
    "telemetry.LIMIT_SLICES",
    "vectors.MAX_DIMENSIONS",
    "__init__._MAX_QUOTED",
    "access.MAX_KNOWN_HOSTS",
    "urls._MAX_DEPTH",
    "agent._LIMIT",
    "captured_attempts.MAX_ATTEMPTS",
    "loss_places.MAX_PLACES",
    "loss_places.MAX_SEARCHED",
    "loss_places._MAX_DEPTH",
    "batch.MAX_ATTEMPTS",
    "batch.MAX_CONCURRENCY",
    "batch.MAX_PAUSE",
    "bpe.MAX_CHARACTERS",
    "byte_budget.MAX_UNREAD",
    "exchange_recorder.MAX_EXCHANGE_BYTES",
    "catalogue._MAX_LIMITS",
    "keeping_policy.MAX_FORGOTTEN",
    "config._MAX_CACHED",
    "config._MAX_DEPTH",
    "config_trust.MAX_SHOWN",
    "context_trimming.MAX_POINTS",
    "decode_calls.MAX_SCALAR",
    "decode_items._MAX_COMPARED",
    "decode_metadata._MAX_DRIFT",
    "decode_turn._MAX_CAUSES",
    "decode_turn._MAX_HEADERS",
    "decode_turn._MAX_PARSED_BODY",
    "embedding_batches.MAX_PARALLEL_BATCHES",
    "embedding_batches._DEFAULT_LIMIT",
    "encode_text._MAX_ID_PREFIX",
    "error_responses._MAX_STATUS",
    "estimate._MAX_MODELS",
    "estimate._MAX_NEW_MESSAGES",
    "estimate._MAX_PROMPTS",
    "token_estimates.MAX_BODY",
    "token_estimates.MAX_PAUSE",
    "token_estimators.MAX_ROWS",
    "token_estimators.MAX_TENANTS",
    "count_cache._MAX_LOOKED_UP",
    "families._MAX_CHANGE",
    "families._MAX_NAMES",
    "journal_queries.MAX_ROWS",
    "journal_queries.MAX_VALUE_ROWS",
    "journal._MAX_LENGTH",
    "costs._MAX_PRICES",
    "journal.MAX_ANONYMOUS_ROWS",
    "journal.MAX_CALLER_ROWS",
    "journal.MAX_KINDS",
    "known_secrets.MAX_FORMER",
    "ledger.MOST_CHOICES",
    "limits.MAX_KNOWN_CALLERS",
    "lifecycle.BEATS_PER_LIMIT",
    "lifecycle.MAX_STACK_FRAMES",
    "live_capture.MAX_NOTICES",
    "live_capture.MAX_SHARED_NAME",
    "live_capture.MAX_WAITING_BYTES",
    "request_breakdown.MAX_LABEL",
    "request_breakdown.MAX_LINES",
    "api_router.MAX_INLINE_JSON",
    "trace_pages.MAX_INLINE_BYTES",
    "loaded_windows.MAX_SHOWN",
    "log_setup._MAX_LINE",
    "log_setup._MAX_STACK_LINES",
    "metrics.MAX_OPEN_SERIES",
    "metrics.MAX_SERIES",
    "metrics._MAX_LABELS",
    "metrics._MAX_LABEL_LENGTH",
    "model_resolution._MAX_ALIAS_DEPTH",
    "request_plan._MAX_CACHED",
    "pool.MAX_IDLE",
    "pool._MAX_SESSIONS",
    "proxy_and_tls.MAX_CONTEXTS",
    "relay.MAX_BUFFERED",
    "relay.MAX_READS",
    "recordings.MAX_BODY_BYTES",
    "recordings._MAX_TEXT",
    "redaction._LONGEST",
    "reply.MAX_PREAMBLE_BYTES",
    "reply.MAX_TOOL_NAMES",
    "request_settings._MAX_DEPTH",
    "request_write._MAX_STOPS",
    "compaction.MAX_ITEM_CHARACTERS",
    "compaction.MAX_KEPT_CHARACTERS",
    "conversation_digest._MAX_DATA",
    "credentials.MAX_KEY_SECONDS",
    "credentials.MAX_KEY_STATES",
    "deployments.MAX_CONVERSATIONS",
    "deployments.MAX_COOL_DOWN",
    "deployments.MAX_DEPLOYMENTS",
    "failure_policy.MAX_CIRCUITS",
    "failure_policy._MAX_SUMMARY",
    "routes._MAX_REWRITES",
    "session_findings.MAX_FINDINGS",
    "session_findings.MAX_PERIOD",
    "session_messages.MAX_LINES",
    "session_messages.MAX_PREVIEW",
    "session_messages.MAX_TITLE",
    "session_messages.MAX_WRAPPER",
    "session_messages.MAX_WRAPPER_ENDS",
    "session_reader.MAX_TENANTS",
    "tenant_sessions.MAX_DISK_TURNS",
    "tenant_sessions.MAX_KNOWN_ANSWERS",
    "tenant_sessions.MAX_KNOWN_MESSAGES",
    "session_routes.MAX_LISTED_SESSIONS",
    "session_compaction.MAX_CHECKED_SESSIONS",
    "session_compaction.MAX_COMPARED_SESSIONS",
    "equal_requests.MAX_COMPARED_TURNS",
    "schemas.MAX_FILE_CHARACTERS",
    "schemas.MAX_FRAME_CHARACTERS",
    "schemas.MAX_TRACE_CHARACTERS",
    "scripts.MAX_CHOICES",
    "sdk.MAX_IDLE_CLIENTS",
    "services._MAX_CLIENTS",
    "settings.LIMIT",
    "file_inspector.MAX_NAME",
    "file_inspector.MAX_WAIT",
    "file_inspector.MAX_WORKERS",
    "spans.MAX_ATTRIBUTE",
    "tokens.MAX_COUNTS",
    "tool_rendering._MAX_DEPTH",
    "stream_traces.MAX_LISTED",
    "transport_errors._MAX_ERROR_BODY",
    "transport_errors._MAX_LOCATION",
    "turn.MAX_LOSSES",
    "tenant_limits.MAX_TENANT_WORKERS",
    "turn_list.MAX_LISTENERS",
    "turn_list.MAX_TENANT_LISTENERS",
    "turn_routes.MAX_FOLLOWERS",
    "turn_routes.MAX_TENANT_FOLLOWERS",
    "turn_list.MAX_PREVIEW_IDS",
    "turn_list.MAX_ROWS",
    "turn_preview.MAX_ANSWER_BYTES",
    "turn_preview.MAX_PARTS",
    "turn_preview.MAX_PREVIEWS",
    "turn_preview.MAX_PREVIEW_CHARACTERS",
    "turn_query_hints.MAX_HINTS",
    "turn_query.MAX_QUERY_CHARACTERS",
    "turn_query.MAX_QUERY_TERMS",
    "turn_query_values.MAX_AMOUNT",
    "query_completion.MAX_OPTIONS",
    "upstream.MAX_RETRY_WAIT",
    "upstream._BODY_LIMIT",
    "usage_series.MAX_BUCKETS",
    "usage_series.MAX_NAMES",
    "usage_series.MAX_POINTS",
    "usage_series.MAX_SERIES",
    "websocket_turn.MAX_RESPONSES",
    "sqlite_writer.MAX_WAITING_JOBS",
    "access_log.MAX_TEXT",
    "access_log.MAX_WAITING",
    "access_log._MAX_WRITE",
    "config.MAX_WORKERS",
    "metrics.MAX_KEYS",
    "workers.MAX_REPORT",
}


def _names(tree: ast.Module) -> Iterator[str]:
    """The names that a module assigns."""
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (target.id for target in targets if isinstance(target, ast.Name))


@cache
def _limits() -> frozenset[str]:
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if "_cli" in path.relative_to(SOURCE).parts:
            continue
        module = path.stem if path.stem == "__init__" else path.stem.removeprefix("_")
        for name in _names(ast.parse(path.read_text(encoding="utf-8"))):
            if LIKE_A_LIMIT.search(name):
                found.add(name if module == "input_limits" else f"{module}.{name}")
    return frozenset(found)


def test_the_page_names_every_limit() -> None:
    assert sorted(name for name in _limits() - OTHERS if f"`{name}`" not in PAGE) == []


def test_the_page_names_no_limit_that_is_gone() -> None:
    named = {
        name for name in re.findall(r"`(?:\w+\.)?_?[A-Z][A-Z_]{3,}`", PAGE) if LIKE_A_LIMIT.search(name.strip("`"))
    }
    assert sorted(named - {f"`{name}`" for name in _limits()}) == []
    assert set(OTHERS) <= _limits()
