"""Parts of the client that have no public name, for tests of what they compute. No other file of the tests names them.

Most tests of the client speak to `Client`; these parts take tables of cases that would each need a provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._client.batch import RateGate
from penstock._client.batch_progress import LineProgress, RichProgress, open_progress
from penstock._client.costs import PriceList, read_priced_tokens, read_prices, sum_costs, usage_cost
from penstock._client.display import build_answer_timeline, render_line
from penstock._client.display_html import render_html
from penstock._client.display_terminal import render_rich
from penstock._client.docstrings import read_docstring
from penstock._client.embedding_batches import BatchLimit, find_batch_limit, split_texts
from penstock._client.embedding_formats import EMBEDDINGS, RANKINGS, read_usage, read_vectors
from penstock._client.function_tools import write_result
from penstock._client.schema_check import find_violations
from penstock._client.spans import is_observed, tool_span
from penstock._client.strict_schemas import NotStrict, tighten_schema
from penstock._client.structured_output import OutputPlan, OutputType
from penstock._client.timeline import (
    PICTURE_CHARACTERS,
    TEXT_CHARACTERS,
    Timeline,
    format_cost,
    format_seconds,
    format_usage,
)
from penstock._client.value_types import InvalidValue
from penstock._engines.auth import Auth, Secret, auth_for, choose_credential
from penstock._engines.engine_interface import HttpRequest
from penstock._engines.model_resolution import Target
from penstock._engines.refreshed_facts import load_refreshed_facts
from penstock._engines.request_plan import start_request
from penstock._framing.aws_messages import split_messages, write_header, write_message
from penstock._gateway.custom_provider_validation import list_templates, make_account
from penstock._gateway.editor_keys import EditorProvider
from penstock._printable_text import reveal_controls
from penstock._providers.models_dev import read_models_dev
from penstock._providers.output_formats import Dialect, OutputFormat, output_format
from penstock._providers.registry import PriceTier
from penstock._store.custom_providers import CustomProvider
from penstock._testing.cassette_file import RecordedResponse, request_fields, response_fields
from penstock._testing.dialects import find_dialect
from penstock._testing.exchange_recorder import OpenExchange
from penstock._testing.exchange_redaction import ExchangeRedactor, credentials_of
from penstock._testing.reply_content import decode_answer

if TYPE_CHECKING:
    import pytest

__all__ = [
    "EMBEDDINGS", "PICTURE_CHARACTERS", "RANKINGS", "TEXT_CHARACTERS", "Auth", "BatchLimit", "CustomProvider",
    "Dialect", "EditorProvider", "ExchangeRedactor", "HttpRequest", "InvalidValue", "LineProgress", "NotStrict",
    "OpenExchange", "OutputFormat", "OutputPlan", "OutputType", "PriceList", "PriceTier", "RateGate",
    "RecordedResponse", "RichProgress", "Secret", "Target", "Timeline", "auth_for", "build_answer_timeline",
    "choose_credential", "credentials_of", "decode_answer", "find_batch_limit", "find_dialect", "find_violations",
    "format_cost", "format_seconds", "format_usage", "is_observed", "list_templates", "load_refreshed_facts",
    "make_account", "open_progress", "output_format", "read_docstring", "read_models_dev", "read_priced_tokens",
    "read_prices", "read_usage", "read_vectors", "render_html", "render_line", "render_rich", "request_fields",
    "response_fields", "reveal_controls", "set_bound", "split_messages", "split_texts", "start_request", "sum_costs",
    "tighten_schema", "tool_span", "usage_cost", "write_header", "write_message", "write_result",
]  # fmt: skip
BOUNDS = {
    "attempts of a batch": "penstock._client.batch.MAX_ATTEMPTS",
    "bytes of a recorded answer": "penstock._testing.exchange_recorder.MAX_EXCHANGE_BYTES",
    "bytes of refreshed facts": "penstock._cli.models_refresh.MAX_FACTS_BYTES",
    "instruments of metrics": "penstock._client.spans._instruments",
    "seconds until an MCP server answers": "penstock._client.mcp_servers._CONNECT_SECONDS",
}


def set_bound(patch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    """Set a bound that is too large, or too long, for a test."""
    patch.setattr(BOUNDS[name], value)
