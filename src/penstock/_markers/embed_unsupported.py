"""Rewrites messages so that a protocol can express them: what it has no field for is embedded with marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from penstock import _markers as marks
from penstock import request as rq
from penstock._markers import PROVIDER_CALL_PREFIX, NativeSupport, is_countable

Report: TypeAlias = Callable[[str], None]


def embed_markers(messages: list[rq.Message], support: NativeSupport, carry: Report, lose: Report) -> list[rq.Message]:
    """Returns messages that the protocol can express; the same list if it can express them already.

    `carry` and `lose` report features. The only losses are `encrypted` and `order`: if a provider ran tools in a turn,
    the client's calls come last.
    """
    any_result = support.failed and support.result_files
    for message in messages:
        role = message.role
        if role == "assistant":
            if not _is_turn_supported(message, support):
                break
        elif role == "tool" and not any_result and not _are_results_supported(message, support):
            break
    else:
        return messages
    return _Embedder(support, carry, lose).embed(messages)


def _is_turn_supported(message: rq.Message, support: NativeSupport) -> bool:
    for part in message.parts:
        if type(part) is rq.Text:
            if not support.refusals and (part.refusal or part.text.startswith(marks.PROTECTED_MARKS)):
                return False
        elif type(part) is rq.Call:
            if part.by == "provider" and _is_foreign_run(part, support.protocol):
                return False
        elif type(part) is rq.Result:
            if _is_foreign_run(part, support.protocol):
                return False
        elif type(part) is rq.File and _must_move_file(part, support):
            return False
    return True


def _must_move_file(file: rq.File, support: NativeSupport) -> bool:
    """True if an assistant's file has no place, and this protocol's client did not put it there itself."""
    return not support.assistant_files and "said" not in _own_marks(file, support)


def _is_foreign_run(part: rq.Call | rq.Result, protocol: str) -> bool:
    """True if a provider of another protocol ran the tool. A result inside an assistant's turn is always such a run."""
    return (part.by == "provider" or type(part) is rq.Result) and protocol not in (part.extra or ())


def _are_results_supported(message: rq.Message, support: NativeSupport) -> bool:
    for part in message.parts:  # a loop: a generator costs more than most messages hold
        if type(part) is rq.Result and (
            _needs_failed_mark(part, support) or _must_move_files(part, support) or _looks_marked(part, support)
        ):
            return False
    return True


def _looks_marked(result: rq.Result, support: NativeSupport) -> bool:
    """True if a reader of the protocol would take the tool's own words for a mark."""
    first = result.content[0] if result.content else None
    return not support.failed and type(first) is rq.Text and first.text.startswith(marks.PROTECTED_MARKS)


def _needs_failed_mark(result: rq.Result, support: NativeSupport) -> bool:
    """True if the result failed and the protocol has no field for that, not even another one (a status)."""
    return result.failed and not support.failed and "failed" not in _own_marks(result, support)


def _must_move_files(result: rq.Result, support: NativeSupport) -> bool:
    """True if the result has files that must move, and this protocol's client did not put them there itself."""
    if support.result_files:
        return False
    for part in result.content:
        if type(part) is rq.File and _is_sendable(part, support):
            return "files" not in _own_marks(result, support)
    return False


def _own_marks(part: rq.File | rq.Result, support: NativeSupport) -> Any:
    return (part.extra or {}).get(support.protocol, {}).get("_", ())


def _is_sendable(file: rq.File, support: NativeSupport) -> bool:
    return support.file_urls or not file.url or file.media.startswith("image/")


class _Embedder:
    """Rewrites one conversation. State: files that wait for the end of a round of results."""

    def __init__(self, support: NativeSupport, carry: Report, lose: Report) -> None:
        self._support = support
        self._carry = carry
        self._lose = lose
        self._messages: list[rq.Message] = []
        self._result_files: list[rq.AnyPart] = []
        self._assistant_files: list[rq.AnyPart] = []
        self._file_count = 0

    def embed(self, messages: Iterable[rq.Message]) -> list[rq.Message]:
        for message in messages:
            if message.role == "tool":
                self._messages.append(replace(message, parts=[self._embed_result(part) for part in message.parts]))
                continue
            self._flush_files()
            if message.role == "assistant":
                self._messages += self._embed_turn(message)
                if self._assistant_files and not any(type(part) is rq.Call for part in message.parts):
                    self._flush_files()  # no results follow
            else:
                self._messages.append(message)
        self._flush_files()
        return self._messages

    def _flush_files(self) -> None:
        for waiting in (self._result_files, self._assistant_files):
            if waiting:
                self._messages.append(rq.Message("user", list(waiting)))
                waiting.clear()

    def _embed_result(self, part: rq.AnyPart) -> rq.AnyPart:
        if type(part) is not rq.Result:
            return part
        content = part.content
        if _must_move_files(part, self._support):
            self._carry("result-file")
            content = [self._move_result_file(item) for item in content]
        if _needs_failed_mark(part, self._support):
            self._carry("failed")
            return replace(part, content=_prepend_mark(content, marks.FAILED_MARK), failed=False)
        first = content[0] if content else None
        if _looks_marked(part, self._support) and type(first) is rq.Text:
            content = [replace(first, text=marks.protect_text(first.text)), *content[1:]]
        return part if content is part.content else replace(part, content=content)

    def _move_result_file(self, part: rq.ResultPart) -> rq.ResultPart:
        if type(part) is not rq.File or not _is_sendable(part, self._support):
            return part
        self._file_count += 1
        mark = marks.RESULT_FILE_MARK.format(self._file_count)
        self._result_files += rq.Text(mark), part
        return rq.Text(mark)

    def _embed_turn(self, message: rq.Message) -> list[rq.Message]:
        parts: list[rq.AnyPart] = []
        mark = marks.ASSISTANT_FILE_MARK if any(map(is_countable, message.parts)) else marks.ASSISTANT_TURN_MARK
        only_files = all(type(part) is rq.File and _must_move_file(part, self._support) for part in message.parts)
        for part in message.parts:
            if type(part) is rq.File and _must_move_file(part, self._support):
                self._carry("assistant-file")
                number = sum(map(is_countable, parts)) if mark is marks.ASSISTANT_FILE_MARK else int(only_files)
                self._assistant_files += rq.Text(mark.format(number)), part
            elif type(part) is rq.Text and part.refusal and not self._support.refusals:
                self._carry("refusal")
                parts.append(replace(part, text=f"{marks.REFUSAL_MARK}\n{part.text}", refusal=False))
            elif type(part) is rq.Text and not self._support.refusals:
                parts.append(_protect(part))
            else:
                parts.append(part)
        message = replace(message, parts=parts)
        if any(
            isinstance(part, rq.Call | rq.Result) and _is_foreign_run(part, self._support.protocol) for part in parts
        ):
            self._carry("provider-call")
            splitter = _TurnSplitter(message, self._support)
            messages = splitter.split()
            if splitter.reordered:
                self._lose("order")
            if splitter.encrypted:
                self._lose("encrypted")
            return messages
        return [message] if parts or not self._assistant_files else []


def _protect(part: rq.Text) -> rq.Text:
    text = marks.protect_text(part.text)
    return part if text is part.text else replace(part, text=text)


def _prepend_mark(content: Sequence[rq.ResultPart], mark: str) -> list[rq.ResultPart]:
    first = content[0] if content else None
    if type(first) is rq.Text:
        return [replace(first, text=f"{mark}\n{first.text}"), *content[1:]]
    return [rq.Text(mark), *content]


class _TurnSplitter:
    """Splits a turn in which a provider ran tools into calls with results after them. The client's calls come last."""

    def __init__(self, message: rq.Message, support: NativeSupport) -> None:
        self._message = message
        self._support = support
        self._answered = {part.call for part in message.parts if type(part) is rq.Result}
        self._messages: list[rq.Message] = []
        self._parts: list[rq.AnyPart] = []
        self._client_calls: list[rq.AnyPart] = []
        self._missing_results: list[rq.AnyPart] = []  # results for calls that have none
        self.reordered = False  # a client's call stood before another part
        self.encrypted = False  # a result had fields that only its provider can read

    def split(self) -> list[rq.Message]:
        for part in self._message.parts:
            if type(part) is rq.Call and part.by == "client":
                self._client_calls.append(part)
                continue
            has_content = not isinstance(part, rq.Text | rq.Reasoning) or bool(part.text)
            self.reordered = self.reordered or (bool(self._client_calls) and has_content)
            if type(part) is rq.Result and _is_foreign_run(part, self._support.protocol):
                self._add_result(part)
            elif type(part) is rq.Call and _is_foreign_run(part, self._support.protocol):
                self._add_call(part)
            else:
                self._parts.append(part)
        if self._missing_results:
            self._flush_parts()
            self._messages.append(rq.Message("tool", self._missing_results))
        self._parts += self._client_calls
        self._flush_parts()
        if self._messages[-1].role == "tool":
            self._messages = _mark_last_results(self._messages)
        self._messages[0] = replace(self._messages[0], name=self._message.name, extra=self._message.extra)
        return self._messages

    def _flush_parts(self) -> None:
        if self._parts:
            self._messages.append(rq.Message("assistant", self._parts))
            self._parts = []

    def _add_call(self, call: rq.Call) -> None:
        call_id = PROVIDER_CALL_PREFIX + call.id
        self._parts.append(replace(call, id=call_id, by="client", extra=None))
        if call.id not in self._answered:
            self._missing_results.append(rq.Result(call_id, call.name, [rq.Text(marks.NO_RESULT_MARK)]))

    def _add_result(self, result: rq.Result) -> None:
        self._flush_parts()
        content = [self._without_ciphertext(part) for part in result.content]
        result = replace(result, call=PROVIDER_CALL_PREFIX + result.call, by="client", content=content, extra=None)
        self._messages.append(rq.Message("tool", [result, *self._missing_results]))
        self._missing_results = []

    def _without_ciphertext(self, part: rq.ResultPart) -> rq.ResultPart:
        if type(part) is not rq.Json:
            return part
        text = remove_ciphertext(part.json)
        self.encrypted = self.encrypted or text is not part.json
        if not self._support.json:
            return rq.Text(text)
        return part if text is part.json else replace(part, json=text)


def _mark_last_results(messages: list[rq.Message]) -> list[rq.Message]:
    """Marks the results that end a turn. Otherwise a reader could not tell where the next turn begins."""
    last = {part.call for part in messages[-1].parts if type(part) is rq.Result}
    return [replace(row, parts=[_mark_last(part, last) for part in row.parts]) for row in messages]


def _mark_last(part: rq.AnyPart, last: set[str]) -> rq.AnyPart:
    size = len(PROVIDER_CALL_PREFIX)
    if type(part) is rq.Call and part.id in last:
        return replace(part, id=marks.LAST_PROVIDER_CALL_PREFIX + part.id[size:])
    if type(part) is rq.Result and part.call in last:
        return replace(part, call=marks.LAST_PROVIDER_CALL_PREFIX + part.call[size:])
    return part


# ── ciphertext ────────────────────────────────────────────────────────────────────────────────────

# https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool (encrypted_content, encrypted_index),
# …/code-execution-tool (encrypted_stdout), …/build-with-claude/extended-thinking (signature; data of redacted thinking)
_ENCRYPTED = "encrypted_content encrypted_index encrypted_stdout encrypted_stderr redactedContent"
FIELDS: Final = frozenset({*_ENCRYPTED.split(), "signature", "thoughtSignature", "thought_signature"})
_ENCRYPTED_TYPES: Final = frozenset({"redacted_thinking", "reasoning.encrypted"})  # types whose `data` is encrypted
_encode = msgspec.json.Encoder().encode


def remove_ciphertext(text: str) -> str:
    """Returns a JSON text without encrypted fields; the same text if it has none, or is not JSON.

    Only the provider that encrypted them can read them: search results, sealed reasoning.
    """
    if not any(name in text for name in FIELDS) and not any(name in text for name in _ENCRYPTED_TYPES):
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
    return _encode(value).decode() if _delete_ciphertext(value) else text


def _delete_ciphertext(value: Any) -> bool:
    """Deletes encrypted fields at any depth, in place; True if there were any."""
    found = False
    pending: list[Any] = [value]
    while pending:  # not recursive: the value may have any depth
        item: Any = pending.pop()
        if isinstance(item, list):
            pending += item
        elif isinstance(item, dict):
            fields = cast("dict[str, Any]", item)
            kind = fields.get("type")
            encrypted = FIELDS | {"data"} if isinstance(kind, str) and kind in _ENCRYPTED_TYPES else FIELDS
            for name in encrypted & fields.keys():
                del fields[name]
                found = True
            pending += fields.values()
    return found
