"""One-to-one maps of call ids and tool names that a target refuses, and functions instead of tools it does not know.

Deterministic: the same conversation, one turn longer, is mapped the same way. A call, its result and its approval
change together; calls that a provider runs keep their ids. Tools of `built_in_tools.toml` are known by their type alone
and run by the client: other providers get a function of the same name. Calls of tools with an `item` become items of
that type again in the answer.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import _lenient_fields as lenient
from penstock import request as rq
from penstock._diagnostics import read_tables
from penstock._markers import free_text_schema
from penstock._messages.traversal import change_parts, with_messages
from penstock._request_profile import IdentifierRule, forbidden_character, identifier_pattern
from penstock._transforms.tool_names import OriginalTool, wrap_free_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._diagnostics import Diagnostics
    from penstock._lenient_fields import Object
    from penstock._request_profile import Profile
    from penstock._transforms.tool_names import CallIdPrefix
    from penstock.events import Extra

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGEST_SIZE = 8  # characters of a digest behind a readable name


def digest(name: str, size: int, attempt: int = 0) -> str:
    """Returns a digest of an identifier in letters and digits; another one for each attempt."""
    salt = str(attempt).encode() if attempt else b""
    number = int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=64, salt=salt).digest())
    characters: list[str] = []
    while len(characters) < size:
        number, digit = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(characters)


def fit_ids(ids: Iterable[str], rule: IdentifierRule) -> dict[str, str]:
    """Returns the ids that must change, and their new ids. A later id never changes the map of an earlier one."""
    mapped: dict[str, str] = {}
    used: set[str] = set()
    fits = identifier_pattern(rule).fullmatch
    for id in dict.fromkeys(ids):  # noqa: A001 — the name of the field
        if id not in used and fits(id):
            used.add(id)
            continue
        name, attempt = id, 0
        while name is id or name in used:
            name = _shorten_id(id, rule, attempt)
            attempt += 1
        used.add(name)
        mapped[id] = name
    return mapped


def _shorten_id(id: str, rule: IdentifierRule, attempt: int) -> str:
    if rule.exact:
        return digest(id, rule.exact, attempt)
    room = rule.limit or 64
    return f"call_{digest(id, 24, attempt)}" if room >= 29 else digest(id, room, attempt)  # noqa: PLR2004


def fit_names(names: Iterable[str], rule: IdentifierRule, wishes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the names that must change, and their new names: readable if unique, else with a digest.

    Names that fit stay. `wishes` are preferred new names.
    """
    wishes_by_name = wishes or {}
    originals = list(dict.fromkeys(names))
    used = {original for original in originals if original not in wishes_by_name and rule.fits(original)}
    wanted = {
        original: _readable_name(wishes_by_name.get(original, original), rule)
        for original in originals
        if original not in used
    }
    wish_counts = Counter(wanted.values())
    mapped: dict[str, str] = {}
    for original, wish in wanted.items():
        name, attempt = wish, 0
        cut = bool(rule.limit) and len(wishes_by_name.get(original, original)) > rule.limit
        while (not attempt and (cut or wish_counts[wish] > 1)) or name in used:
            stem = wish[: rule.limit - _DIGEST_SIZE - 1] if rule.limit else wish
            name = f"{stem}_{digest(original, _DIGEST_SIZE, attempt)}"
            attempt += 1
        used.add(name)
        mapped[original] = name
    return mapped


def _readable_name(name: str, rule: IdentifierRule) -> str:
    original = forbidden_character(rule).sub("_", name) if rule.chars else name
    if rule.first and not re.match(f"[{rule.first}]", original):
        original = "_" + original
    return (original[: rule.limit] if rule.limit else original) or "_"


_FIELDS: dict[type, str] = {rq.Call: "id", rq.Result: "call", rq.Ask: "call"}


def restore_prefix(request: rq.Request, names: CallIdPrefix) -> rq.Request:
    """Removes the prefix that the client saw, which restores the provider's ids."""
    return _rename_ids(request, names.restore)


def map_ids(request: rq.Request, rule: IdentifierRule, notes: Diagnostics) -> tuple[rq.Request, dict[str, str]]:
    """Returns the request with ids that fit, and a map from new to old ids."""
    if not rule.strict:
        return request, {}
    table = fit_ids(_client_call_ids(request), rule)
    if not table:
        return request, {}
    notes.add("ids", f"call ids that the target refuses were mapped: {len(table)}")
    return _rename_ids(request, lambda name: table.get(name, name)), {new: old for old, new in table.items()}


def _client_call_ids(request: rq.Request) -> dict[str, None]:
    """Returns the ids of calls that a client runs, in the order of first use."""
    found: dict[str, None] = {}
    for message in request.messages:
        for part in message.parts:
            if type(part) is rq.Call:
                if part.by == "client":
                    found[part.id] = None
            elif type(part) is rq.Result:
                if part.by == "client":
                    found[part.call] = None
            elif type(part) is rq.Ask:
                found[part.call] = None
    return found


def _rename_ids(request: rq.Request, name: Callable[[str], str]) -> rq.Request:
    def renamed(part: Any) -> Any:
        field = _FIELDS[type(part)]
        old = getattr(part, field)
        if getattr(part, "by", "client") == "provider":
            return part
        new = name(old)
        return part if new == old else replace(part, **{field: new})

    return with_messages(request, change_parts(request.messages, _FIELDS.keys(), renamed))


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class BuiltInTool(msgspec.Struct, frozen=True):
    """A tool that a protocol knows by its type alone. `kind`: the start of the type."""

    kind: str
    description: str
    schema: dict[str, Any]
    item: str = ""


@cache
def _load_typed_client_tools() -> list[BuiltInTool]:
    tables = read_tables("penstock._messages", "built_in_tools.toml")
    return msgspec.convert(tables["tools"], list[BuiltInTool])


def _find_built_in(kind: str) -> BuiltInTool | None:
    """Returns the tool of that type, with or without a date."""
    tools = _load_typed_client_tools()
    return next((tool for tool in tools if kind == tool.kind or kind.startswith(tool.kind.rstrip("_") + "_2")), None)


def _find_schema(tool: Object) -> Object | None:
    """Returns the schema of a tool of an unknown kind, if it is under one of the usual keys."""
    for container in (tool, lenient.get_object(tool, "function"), lenient.get_object(tool, "custom")):
        for key in ("parameters", "input_schema", "inputSchema", "parameters_json_schema", "schema"):
            if isinstance(container.get(key), dict):
                return lenient.get_object(container, key)
    return None


_CALL_PARTS = frozenset({rq.Call, rq.Result})
_CLIENT_KINDS = ("function", "custom")


def map_names(request: rq.Request, profile: Profile, notes: Diagnostics) -> tuple[rq.Request, dict[str, OriginalTool]]:
    """Returns the request with tools that the target accepts, and the original tool of each new name."""
    return _ToolMapping(request, profile, notes).map()


class _ToolMapping:
    """Renames the tools of one request. Keeps the new names, the originals, and the tool of each call."""

    def __init__(self, request: rq.Request, profile: Profile, notes: Diagnostics) -> None:
        self._request = request
        self._profile = profile
        self._notes = notes
        self._names: dict[str, str] = {}
        self._restore_names: dict[str, OriginalTool] = {}
        self._results: dict[str, str] = {}

    def map(self) -> tuple[rq.Request, dict[str, OriginalTool]]:
        request = self._request
        functions = [self._as_function(tool) for tool in request.tools]
        has_free_text = self._choose_names(functions)
        tools = [self._map_tool(tool) for tool in functions]
        if self._names or has_free_text:
            request = with_messages(request, change_parts(request.messages, _CALL_PARTS, self._map_part))
        if any(tool is not old for tool, old in zip(tools, request.tools, strict=True)):
            request = replace(request, tools=tools)
        choice = self._map_choice(request.choice, tools)
        return request if choice is request.choice else replace(request, choice=choice), self._restore_names

    # ── names ─────────────────────────────────────────────────────────────────────────────────────

    def _qualified_name(self, part: rq.Tool | rq.Call) -> str:
        """Returns a tool's name with its namespace. Calls have the namespace in `extra`."""
        if self._profile.namespaces:
            return part.name
        space = part.namespace if type(part) is rq.Tool else _namespace_of(part.extra)
        return f"{space}\0{part.name}" if space else part.name

    def _choose_names(self, functions: list[rq.Tool]) -> bool:
        """Chooses new names where needed. Returns True if some call in the history has free text as its input."""
        keys = {self._qualified_name(tool): None for tool in functions if tool.kind in _CLIENT_KINDS}
        has_free_text = False
        for message in self._request.messages:
            if message.role == "assistant":
                for part in message.parts:
                    if type(part) is rq.Call and part.by == "client":
                        keys[part.name if part.extra is None else self._qualified_name(part)] = None
                        has_free_text = has_free_text or part.form == "text"
        wishes = {key: key.replace("\0", "__") for key in keys if "\0" in key}
        self._names = fit_names(keys, self._profile.names, wishes)
        for key, name in self._names.items():
            space, _, original = key.rpartition("\0")
            self._restore_names[name] = OriginalTool(original, space)
            self._notes.add("names", f"the tool {key.replace(chr(0), '/')!r} goes by the name {name!r}")
        return has_free_text and not self._profile.custom

    # ── tools ─────────────────────────────────────────────────────────────────────────────────────

    def _as_function(self, tool: rq.Tool) -> rq.Tool:
        """Returns a tool of another kind as a function if its schema is known; else the writer decides."""
        if tool.kind in _CLIENT_KINDS or self._profile.protocol in (tool.extra or ()):
            return tool
        nothing: Object = {}
        raw = next((lenient.get_object(own, "tool") for own in (tool.extra or nothing).values()), nothing)
        known = _find_built_in(lenient.get_text(raw, "type"))
        schema = known.schema if known else _find_schema(raw)
        if schema is None:
            return tool
        self._notes.add("tool-wrapped", f"the tool {tool.name!r} of type {raw.get('type')!r} is offered as a function")
        if known and known.item:
            self._restore_names[tool.name] = OriginalTool(tool.name, item=known.item)
        description = tool.description or lenient.get_text(raw, "description") or (known.description if known else "")
        return rq.Tool(tool.name, description, schema, cache=tool.cache)

    def _map_tool(self, tool: rq.Tool) -> rq.Tool:
        if tool.kind not in _CLIENT_KINDS:
            return tool
        key = self._qualified_name(tool)
        name = self._names.get(key, tool.name)
        if tool.kind == "custom" and not self._profile.custom:
            self._notes.add("custom-tool", f"the free-text tool {tool.name!r} is offered as a function of one string")
            self._record_free_text(name, key)
            return rq.Tool(name, tool.description, free_text_schema(tool), cache=tool.cache)
        space = "" if not self._profile.namespaces else tool.namespace
        return tool if name == tool.name and space == tool.namespace else replace(tool, name=name, namespace=space)

    def _record_free_text(self, name: str, key: str) -> None:
        space, _, original = key.rpartition("\0")
        self._restore_names[name] = OriginalTool(original, space, "text")

    def _map_choice(self, choice: rq.ToolChoice | None, tools: list[rq.Tool]) -> rq.ToolChoice | None:
        if choice is None or not choice.names:
            return choice
        new_names: dict[str, str] = {}
        for tool, old in zip(tools, self._request.tools, strict=True):
            if tool is not old:
                new_names.setdefault(old.name, tool.name)
        if not any(name in new_names for name in choice.names):
            return choice
        # `extra` has the original names
        return replace(choice, names=[new_names.get(name, name) for name in choice.names], extra=None)

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _map_part(self, part: Any) -> Any:
        if part.by == "provider":
            return part
        return self._map_call(part) if type(part) is rq.Call else self._map_result(part)

    def _map_call(self, call: rq.Call) -> rq.Call:
        key = self._qualified_name(call)
        name = self._names.get(key, call.name)
        has_free_text = call.form == "text" and not self._profile.custom
        if has_free_text:
            self._record_free_text(name, key)
        if name == call.name and not has_free_text:
            return call
        self._results[call.id] = name
        call = replace(call, name=name, extra=_without_namespace(call.extra) if "\0" in key else call.extra)
        return replace(call, json=wrap_free_text(call.json), form="json") if has_free_text else call

    def _map_result(self, result: rq.Result) -> rq.Result:
        name = self._results.get(result.call) or self._names.get(result.name, result.name)
        form = result.form if self._profile.custom else "json"
        return result if (name, form) == (result.name, result.form) else replace(result, name=name, form=form)


def _namespace_of(extra: Extra | None) -> str:
    if extra is None:
        return ""
    return next((space for fields in extra.values() if (space := lenient.get_text(fields, "namespace"))), "")


def _without_namespace(extra: Extra | None) -> Extra | None:
    if extra is None:
        return None
    return {
        protocol: {key: value for key, value in fields.items() if key != "namespace"}
        for protocol, fields in extra.items()
    }
