"""Writes a turn's request as a command or a program: curl, Python, TypeScript.

The body is the one that the client sent, with secrets removed. curl sends its bytes; the programs send the same JSON.
A key is read from the environment and never written. What a form cannot express is said in `notes`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from penstock._inspector import program_text
from penstock._inspector.request_conversion import convert_body, parse_request_body, request_headers
from penstock._inspector.shell_quoting import can_stand_in_quotes, print_command, quote_word
from penstock._printable_text import printable
from penstock._redaction import MARK
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._lenient_fields import Object

KEY_VARIABLE = "PENSTOCK_KEY"
MAX_ARGUMENT_BYTES = 100_000  # Linux takes 128 KiB in one argument; a longer body is piped
CHAT_OPERATIONS = frozenset({"", "chat", "responses", "completions", "fim"})
_PATH_CHARACTERS = "/:@!$&'()*+,;=~"  # without brackets and braces, which curl would expand
_FIM_PATH = "/fim/completions"
WEBSOCKET_MESSAGE = "response.create"
_WEBSOCKET_FIELDS = frozenset({"type", "stream_id", "generate"})


@dataclass
class CopiedRequest:
    """A request that a client sent. `body`: its text, redacted. `headers`: those that change what it means.

    `keyed`: the gateway needs a key. `base`: the address of the gateway.
    """

    protocol: str
    path: str
    body: str
    base: str
    model: str = ""
    stream: bool = False
    keyed: bool = False
    operation: str = "chat"
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def body_protocol(self) -> str:
        """The protocol of the body: fill-in-the-middle is answered in another one."""
        return "completions" if self.path.endswith(_FIM_PATH) else self.protocol


class CopiedCommand(msgspec.Struct):
    """The text to copy, its language, and what it does not express."""

    form: str
    language: str
    text: str
    notes: list[str]


def write_command(form: str, request: CopiedRequest) -> CopiedCommand:
    """Returns the request in a form: one of `FORMS`."""
    if form not in FORMS:
        raise InputError(f"as: expected one of {', '.join(FORMS)}, found {form[:40]!r}")
    language, write = FORMS[form]
    notes = [f"{MARK} stands where a secret was removed"] if MARK in request.body else []
    if "\ufffd" in request.body:
        notes.append("the body had bytes that are not UTF-8; they are replaced")
    request = replace(request, headers=_sendable_headers(request.headers, notes))
    request = _without_websocket(request, notes)
    return CopiedCommand(form, language, write(request, notes), notes)


def _without_websocket(request: CopiedRequest, notes: list[str]) -> CopiedRequest:
    """Returns the request of a WebSocket message as it is sent by HTTP. Its answer is always streamed."""
    if request.protocol != "responses" or WEBSOCKET_MESSAGE not in request.body:
        return request
    try:
        body = parse_request_body(request.body.encode("utf-8", "replace"))
    except InputError:
        return request
    if body.get("type") != WEBSOCKET_MESSAGE:
        return request
    sent = {name: value for name, value in body.items() if name not in _WEBSOCKET_FIELDS} | {"stream": True}
    try:
        text = json.dumps(sent, allow_nan=False)
    except ValueError:
        notes.append("the request came over a WebSocket, and is not rewritten for HTTP: a number in it is too large")
        return request
    notes.append("the request came over a WebSocket; this is the same one over HTTP")
    if program_text.has_repeated_names(request.body):
        notes.append("an object of the body has a name twice: only its last value is here")
    if body.get("previous_response_id"):
        notes.append("a WebSocket knows its own responses; over HTTP previous_response_id must name a stored one")
    return replace(request, body=text, stream=True)


def _sendable_headers(headers: dict[str, str], notes: list[str]) -> dict[str, str]:
    """Returns the headers of printable ASCII: only those are sent alike by all programs. The others are named."""
    sendable = {name: value for name, value in headers.items() if _is_printable_ascii(name + value)}
    if len(sendable) < len(headers):
        names = ", ".join(name for name in headers if name not in sendable)
        notes.append(f"left out, because of characters that are not printable ASCII: {printable(names)}")
    return sendable


def _is_printable_ascii(text: str) -> bool:
    return text.isascii() and text.isprintable()


# ── curl ──────────────────────────────────────────────────────────────────────────────────────────


def _write_curl(request: CopiedRequest, _notes: list[str]) -> str:
    """Returns a command for a POSIX shell. curl reads no file, also if the body begins with `@`.

    What cannot stand in an argument, or is too long for it, is printed into curl's standard input.
    """
    path = quote(request.path, safe=_PATH_CHARACTERS, errors="replace")
    if path.endswith(":streamGenerateContent"):
        path += "?alt=sse"
    lines = [f"curl {'-N ' if request.stream else ''}{quote_word(request.base + path)}"]
    headers = {**request_headers(request.protocol), **request.headers}
    lines += [f"-H {quote_word(f'{name}: {value}')}" for name, value in headers.items()]
    if request.keyed:
        lines.append(f'-H "authorization: Bearer ${KEY_VARIABLE}"')
    body = request.body.encode("utf-8", "replace").decode()
    if len(body.encode()) > MAX_ARGUMENT_BYTES or not can_stand_in_quotes(body):
        return f"{print_command(body)} |\n  " + " \\\n  ".join([*lines, "--data-binary @-"])
    return " \\\n  ".join([*lines, f"--data-raw {quote_word(body)}"])


# ── Python and TypeScript ─────────────────────────────────────────────────────────────────────────


def _converted_body(request: CopiedRequest, accepted: tuple[str, ...], notes: list[str]) -> tuple[str, Object]:
    """Returns a protocol that the program's package speaks, and the body in it. Losses become notes."""
    if request.operation not in CHAT_OPERATIONS:
        raise InputError(f"a request of {request.operation!r} can be copied as curl only")
    body, source = parse_request_body(request.body.encode("utf-8", "replace")), request.body_protocol
    if program_text.has_repeated_names(request.body):
        notes.append("an object of the body has a name twice: only its last value is here; curl sends both")
    if source in accepted:
        return source, body
    target = accepted[0]
    try:
        converted = convert_body(body, source, target, model=request.model, stream=request.stream)
    except PenstockError as error:
        raise InputError(f"the request cannot be written in the protocol {target}: {error}") from None
    notes.append(f"the client sent {source}; this is the same request in {target}")
    notes.extend(note.message for note in converted.notes)
    return target, converted.body


def _with_model(body: Object, request: CopiedRequest, notes: list[str]) -> Object:
    """Returns a body that names a model: the vendors' packages want one."""
    if body.get("model") or not request.model:
        return body
    notes.append(f"the client named no model; the gateway took {printable(request.model)}")
    return {**body, "model": request.model}


def _write_openai(request: CopiedRequest, notes: list[str]) -> str:
    protocol, body = _converted_body(request, ("openai-chat", "responses", "completions"), notes)
    body = _with_model(body, request, notes)
    return program_text.openai_program(protocol, body, _settings(request))


def _write_anthropic(request: CopiedRequest, notes: list[str]) -> str:
    _, body = _converted_body(request, ("anthropic",), notes)
    body = _with_model(body, request, notes)
    return program_text.anthropic_program(body, _settings(request))


def _write_penstock(request: CopiedRequest, notes: list[str]) -> str:
    protocol, body = _converted_body(request, ("openai-chat", "responses"), notes)
    notes.append("penstock.Client writes the body anew, with the same messages, tools and settings")
    return program_text.penstock_program(protocol, body, _settings(request))


def _write_ai_sdk(request: CopiedRequest, notes: list[str]) -> str:
    protocol, body = _converted_body(request, ("openai-chat", "responses", "anthropic", "gemini"), notes)
    if program_text.has_large_integers(body):
        notes.append("JavaScript cannot hold one of its whole numbers exactly")
    return program_text.ai_sdk_program(protocol, body, _settings(request))


def _settings(request: CopiedRequest) -> program_text.ProgramSettings:
    return program_text.ProgramSettings(
        base=request.base,
        key=KEY_VARIABLE if request.keyed else "",
        headers=request.headers,
        model=request.model,
        stream=request.stream,
    )


FORMS: dict[str, tuple[str, Callable[[CopiedRequest, list[str]], str]]] = {
    "curl": ("sh", _write_curl),
    "penstock": ("python", _write_penstock),
    "openai": ("python", _write_openai),
    "anthropic": ("python", _write_anthropic),
    "aisdk": ("typescript", _write_ai_sdk),
}
