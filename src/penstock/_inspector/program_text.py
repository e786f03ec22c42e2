"""Programs that send a request body with an SDK: the text of Python and TypeScript files.

The body stands in them as literals. Values of the body never become code. Control characters and invisible ones are
escaped, because the programs are pasted into terminals.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from penstock._printable_text import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._lenient_fields import Object

NO_KEY = "none"  # what an SDK sends where the gateway needs no key
MAX_EXACT_INTEGER = 2**53 - 1  # of JavaScript
_WIDTH = 100  # characters of a list or an object that stays on one line
# Parameters of the SDKs' methods. A field of the body that is not among them goes into `extra_body`.
_CHAT = (
    "model messages stream stream_options temperature top_p max_tokens max_completion_tokens stop seed n tools "
    "tool_choice parallel_tool_calls response_format reasoning_effort frequency_penalty presence_penalty "
    "logprobs top_logprobs logit_bias user metadata store service_tier modalities audio prediction functions "
    "function_call web_search_options verbosity prompt_cache_key safety_identifier"
)
_RESPONSES = (
    "model input instructions stream store temperature top_p max_output_tokens tools tool_choice "
    "parallel_tool_calls max_tool_calls text reasoning include previous_response_id conversation prompt metadata "
    "truncation background service_tier stream_options top_logprobs user prompt_cache_key safety_identifier"
)
_COMPLETIONS = (
    "model prompt suffix stream stream_options temperature top_p max_tokens stop seed n best_of echo logprobs "
    "logit_bias frequency_penalty presence_penalty user"
)
_MESSAGES = "model max_tokens messages system stream stop_sequences tools tool_choice thinking metadata service_tier"
PARAMETERS = {
    "openai-chat": tuple(_CHAT.split()),
    "responses": tuple(_RESPONSES.split()),
    "completions": tuple(_COMPLETIONS.split()),
    "anthropic": tuple(_MESSAGES.split()),
}
_METHODS = {
    "openai-chat": "chat.completions.create",
    "responses": "responses.create",
    "completions": "completions.create",
}


@dataclass
class ProgramSettings:
    """What a program needs beside the body. `key`: the environment variable of the key, empty if none is needed."""

    base: str
    key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    model: str = ""
    stream: bool = False


# ── Python ────────────────────────────────────────────────────────────────────────────────────────


def openai_program(protocol: str, body: Object, settings: ProgramSettings) -> str:
    """Returns a program for the `openai` package."""
    client = f"OpenAI(base_url={settings.base + '/v1'!r}, api_key={_python_key(settings)})"
    return _sdk_program(
        "from openai import OpenAI", client, _METHODS[protocol], _arguments(protocol, body, settings), body
    )


def anthropic_program(body: Object, settings: ProgramSettings) -> str:
    """Returns a program for the `anthropic` package."""
    client = f"Anthropic(base_url={settings.base!r}, api_key={_python_key(settings)})"
    arguments = _arguments("anthropic", body, settings)
    arguments["timeout"] = 600.0  # without one, the SDK refuses long answers that are not streamed
    return _sdk_program("from anthropic import Anthropic", client, "messages.create", arguments, body)


def _sdk_program(imported: str, client: str, method: str, arguments: Object, body: Object) -> str:
    lines = (
        ["import os", "", imported, "", f"client = {client}"]
        if "os.environ" in client
        else [imported, "", f"client = {client}"]
    )
    call = f"client.{method}({_python_arguments(arguments)})"
    if body.get("stream") is True:
        lines += [f"for event in {call}:", "    print(event.to_json(indent=None))"]
    else:
        lines += [f"answer = {call}", "print(answer.to_json())"]
    return "\n".join(lines) + "\n"


def penstock_program(protocol: str, body: Object, settings: ProgramSettings) -> str:
    """Returns a program for `penstock.SyncClient`, with the gateway as a provider."""
    provider: Object = {"base_url": f"{settings.base}/v1"}
    if protocol == "responses":
        provider |= {"like": "openai-compatible", "fields": {"has": ["responses"]}}
    literal = format_python({"providers": {"gateway": provider}}, 0)
    if settings.key:
        literal = literal.replace(f"{provider['base_url']!r}", f"{provider['base_url']!r}, 'env': {settings.key!r}", 1)
    method = "responses" if protocol == "responses" else "chat"
    sent = {**body, "model": f"gateway/{body.get('model') or settings.model}"}
    lines = [
        "from penstock import SyncClient",
        "",
        f"body = {format_python(sent, 0)}",
        f"with SyncClient({literal}) as client:",
    ]
    headers = f", extra_headers={format_python(dict(settings.headers), 4)}" if settings.headers else ""
    if body.get("stream") is True:
        lines += [f"    for event in client.{method}_stream(body{headers}):", "        print(event)"]
    else:
        lines += [f"    print(client.{method}(body{headers}))"]
    return "\n".join(lines) + "\n"


def _arguments(protocol: str, body: Object, settings: ProgramSettings) -> Object:
    """Returns the keyword arguments of the SDK's method: its own parameters, and the rest as `extra_body`."""
    known = PARAMETERS[protocol]
    arguments = {name: body[name] for name in known if name in body}
    rest = {name: value for name, value in body.items() if name not in known}
    if rest:
        arguments["extra_body"] = rest
    if settings.headers:
        arguments["extra_headers"] = dict(settings.headers)
    return arguments


def _python_key(settings: ProgramSettings) -> str:
    return f"os.environ[{settings.key!r}]" if settings.key else repr(NO_KEY)


def _python_arguments(arguments: Object) -> str:
    return "".join(f"\n    {name}={format_python(value, 4)}," for name, value in arguments.items()) + "\n"


def format_python(value: Any, indent: int) -> str:
    """Returns a JSON value as a Python literal."""
    return _format(value, indent, _python_scalar, repr)


def _python_scalar(value: Any) -> str:
    if isinstance(value, float) and value in {float("inf"), float("-inf")}:
        return f'float("{value}")'
    return repr(value)


# ── TypeScript ────────────────────────────────────────────────────────────────────────────────────

# Protocol → package, the function that makes a provider, its path, and how it names a model.
_PROVIDERS = {
    "openai-chat": ("@ai-sdk/openai-compatible", "createOpenAICompatible", "/v1", "provider.chatModel"),
    "responses": ("@ai-sdk/openai", "createOpenAI", "/v1", "provider.responses"),
    "anthropic": ("@ai-sdk/anthropic", "createAnthropic", "/v1", "provider"),
    "gemini": ("@ai-sdk/google", "createGoogleGenerativeAI", "/v1beta", "provider"),
}


def ai_sdk_program(protocol: str, body: Object, settings: ProgramSettings) -> str:
    """Returns a program for the AI SDK. The SDK reads the answer; the body is sent as it is here."""
    package, make, path, model = _PROVIDERS[protocol]
    streamed = settings.stream if protocol == "gemini" else body.get("stream") is True
    key = f'process.env.{settings.key} ?? ""' if settings.key else _json_text(NO_KEY)
    options = ['  name: "penstock",'] if protocol == "openai-chat" else []
    options += [f"  baseURL: {_json_text(settings.base + path)},", f"  apiKey: {key},"]
    if settings.headers:
        options.append(f"  headers: {format_typescript(dict(settings.headers), 2)},")
    options.append("  fetch: (url, init) => fetch(url, { ...init, body: JSON.stringify(body) }),")
    call = "streamText" if streamed else "generateText"
    name = _json_text(str(body.get("model") or settings.model))
    lines = [
        f"import {{ {make} }} from {_json_text(package)};",
        f'import {{ {call} }} from "ai";',
        "",
        "// The body that was sent. `fetch` sends it in place of the one that the AI SDK writes.",
        f"const body = {format_typescript(body, 0)};",
        f"const provider = {make}({{",
        *options,
        "});",
    ]
    if streamed:
        lines += [
            f'const result = streamText({{ model: {model}({name}), prompt: "-" }});',
            "for await (const part of result.fullStream) console.log(part);",
        ]
    else:
        lines += [
            f'const result = await generateText({{ model: {model}({name}), prompt: "-" }});',
            "console.log(result.content);",
        ]
    return "\n".join(lines) + "\n"


def format_typescript(value: Any, indent: int) -> str:
    """Returns a JSON value as a TypeScript literal."""
    return _format(value, indent, _json_text, _typescript_name)


def _typescript_name(name: str) -> str:
    return '["__proto__"]' if name == "__proto__" else _json_text(name)  # the bare name would set the prototype


def _json_text(value: Any) -> str:
    return escape_unprintable(json.dumps(value, ensure_ascii=False), _escape_utf16)


def _escape_utf16(char: str) -> str:
    """Returns the escapes of a character in JavaScript: one for each UTF-16 unit."""
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{unit:04x}" for unit in struct.unpack(f">{len(data) // 2}H", data))


# ── both ──────────────────────────────────────────────────────────────────────────────────────────


def _format(value: Any, indent: int, scalar: Callable[[Any], str], name: Callable[[str], str]) -> str:
    """Returns a literal: short lists and objects on one line, long ones with a line for each entry."""
    if isinstance(value, dict):
        pairs = cast("Object", value).items()
        items = [f"{name(key)}: {_format(inner, indent + 4, scalar, name)}" for key, inner in pairs]
        return _wrap("{", items, "}", indent)
    if isinstance(value, list):
        values = cast("list[object]", value)
        return _wrap("[", [_format(inner, indent + 4, scalar, name) for inner in values], "]", indent)
    return scalar(value)


def _wrap(opening: str, items: list[str], closing: str, indent: int) -> str:
    line = f"{opening}{', '.join(items)}{closing}"
    if len(line) + indent <= _WIDTH and "\n" not in line:
        return line
    inner = "".join(f"{' ' * (indent + 4)}{item},\n" for item in items)
    return f"{opening}\n{inner}{' ' * indent}{closing}"


def has_repeated_names(text: str) -> bool:
    """True if an object of a JSON text has a name twice."""
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({name for name, _ in pairs}) < len(pairs)

    try:
        json.loads(text, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return False
    return found


def has_large_integers(value: Any) -> bool:
    """True if a JSON value has a whole number that JavaScript cannot hold."""
    if isinstance(value, dict):
        return any(map(has_large_integers, cast("Object", value).values()))
    if isinstance(value, list):
        return any(map(has_large_integers, cast("list[object]", value)))
    return isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER
