"""What the code knows about a protocol stands in the protocol's folder, not in tables elsewhere that are keyed by name."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock._protocols import MODULES

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[1] / "src"
# Names that are also something else everywhere: a list of events, the editor, the operation.
AMBIGUOUS = {"events", "vscode", "completions"}
# Modules and packages that may name protocols, each with the reason.
ALLOWED = (
    ("penstock._protocols", "the registry: names and folders"),
    ("penstock._gateway.endpoints", "endpoints: one address, one protocol"),
    ("penstock._gateway.routes", "endpoints: the table of addresses"),
    ("penstock._gateway.websocket_turn", "the endpoint for Responses over a WebSocket"),
    ("penstock._gateway.websocket", "the endpoint for Responses over a WebSocket"),
    ("penstock._client.api", "one method per OpenAI operation"),
    ("penstock._client.turn_calls", "one method per OpenAI operation"),
    ("penstock._client.embedding_formats", "vendors' formats of embeddings, which are not protocols of turns"),
    ("penstock._client.response_stream", "web responses: the default target is the UI stream"),
    ("penstock._cli.demo_scenes", "which packaged streams the demo shows, and to which clients"),
    ("penstock._cli.chat_session", "questions and saved conversations are in OpenAI's format"),
    ("penstock._replay.wire_encoding", "encoders of protocols that are only read, for packaged streams and tests"),
    ("penstock._client.strict_schemas", "dialects of JSON Schema have the names of vendors"),
    ("penstock._providers.output_formats", "dialects of JSON Schema have the names of vendors"),
    ("penstock._inspector.stream_traces", "the menu of target protocols, in its order"),
    ("penstock._inspector.client_encoding", "endpoints: how each encoded an earlier response"),
    ("penstock._inspector.copied_commands", "vendors' SDKs: which speaks which protocol"),
    ("penstock._inspector.program_text", "vendors' SDKs: which speaks which protocol"),
    ("penstock._inspector.request_conversion", "endpoints: where clients of a protocol send their requests"),
    ("penstock._inspector.turn_query_terms", "examples of values in the help of a search"),
    ("penstock._testing", "test helpers"),
    ("penstock._aisdk", "the AI SDK's metadata is keyed by provider names"),
    ("penstock._protocols.aisdk", "the AI SDK's metadata is keyed by provider names"),
    ("penstock._protocols.uistream", "the AI SDK's metadata is keyed by provider names"),
    ("penstock._vscode_stream", "the default source is the AI SDK"),
    ("penstock.messages", "convert_messages: the default target is the AI SDK"),
    ("penstock._messages.foreign_state", "which protocol's state goes back to which vendor"),
    ("penstock._protocols.openai_chat.wire", "reasoning_details and extra_content carry the state of other protocols"),
    ("penstock._protocols.vscode.request_read", "thinking parts carry the state of other protocols"),
    ("penstock._vendor_errors", "the error object that OpenAI's three protocols share"),
    ("penstock._vendor_errors", "shapes that are not protocols of turns"),
    ("penstock._engines.sdk_vendors", "vendors' SDKs: the types that parse a protocol's stream"),
    ("penstock._engines.failure_policy", "the operation `responses`"),
    ("penstock._engines.request_plan", "the operation `responses`"),
    ("penstock._gateway.telemetry", "the table `responses`"),
    ("penstock._providers.registry", "vendors' shapes of the list of models"),
    ("penstock._providers.model_identity", "Bedrock the provider"),
    ("penstock._providers.registry", "the operation `responses`"),
    ("penstock._tokens.hidden_additions", "which endpoints add tokens to a prompt"),
    ("penstock._replay.scripts", "a replayed turn names the stop sequence as Anthropic does"),
)
PACKAGES = (  # with all their modules
    "penstock._gateway.endpoints",
    "penstock._testing",
    "penstock._aisdk",
    "penstock._protocols.aisdk",
    "penstock._protocols.uistream",
)


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def protocol_names(path: Path) -> set[str]:
    """Returns the protocol names among a module's string constants, docstrings excepted."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs)
    return {node.value for node in constants if isinstance(node.value, str)} & (MODULES.keys() - AMBIGUOUS)


def is_allowed(module: str) -> bool:
    return any(module == one for one, _ in ALLOWED) or any(module.startswith(package + ".") for package in PACKAGES)


@pytest.mark.slow
def test_protocols_are_named_in_their_folders_only() -> None:
    wrong: dict[str, set[str]] = {}
    for module, path in modules():
        own = {name for name, folder in MODULES.items() if f"{module}.".startswith(f"penstock._protocols.{folder}.")}
        found = protocol_names(path) - own
        if found and not is_allowed(module):
            wrong[module] = found
    assert not wrong, "make it a field of the protocol's row"


@pytest.mark.slow
def test_every_exception_is_needed() -> None:
    named = {module for module, path in modules() if protocol_names(path)}
    existing = {module for module, _ in modules()}
    for module in {one for one, _ in ALLOWED} & existing:
        inside = {one for one in named if one == module or (module in PACKAGES and one.startswith(module + "."))}
        assert inside, f"{module} names no protocol: take it off the list"
