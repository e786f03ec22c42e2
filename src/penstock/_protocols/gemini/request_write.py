"""Canonical requests → generateContent requests. The URL names the model and whether to stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from penstock import _request_writer as request_writer
from penstock import request as rq
from penstock._diagnostics import Losses, read_losses
from penstock._lenient_json import decode_unless_too_deep
from penstock._markers import EMPTY_MARK, NativeSupport, wrap_system_parts
from penstock._markers.embed_unsupported import embed_markers
from penstock._media import sniff_media_type
from penstock._protocols.gemini.decode_calls import METADATA_ONLY
from penstock._protocols.gemini.request_interactions import write_interaction
from penstock._protocols.gemini.request_settings import write_settings
from penstock._protocols.gemini.request_tools import write_choice, write_response, write_tools
from penstock._protocols.gemini.wire import ENUMS, NAME, SYSTEM_SEAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock._lenient_fields import Object

LOSSES = read_losses(__name__, "requests")
LACKS = read_losses(__name__, "some_requests")
_TO_URL_SAFE = str.maketrans("+/", "-_")


class Quirks(msgspec.Struct, frozen=True):
    """Differences between APIs of this protocol."""

    ids: bool = True  # calls and results may have an id
    schemas: Literal["json", "subset"] = "json"  # the API understands JSON Schema, or only a subset of OpenAPI
    result_files: bool = True  # function responses may have files
    metadata: bool = True  # parts may have the sender's metadata
    unsigned: str = ""  # the signature of a call without a known one, if the API requires one


class GeminiRequestWriter(request_writer.RequestDraft):
    """State: name and position of each call, ids that we made up, and the content that collects results."""

    protocol = NAME
    losses: ClassVar[Losses] = {**LOSSES, **LACKS}

    def __init__(self, quirks: Quirks) -> None:
        super().__init__()
        self._quirks = quirks
        self._call_names: dict[str, str] = {}
        self._call_positions: dict[str, int] = {}
        self._minted: set[str] = set()
        self._results: list[tuple[str, Object]] | None = None  # call and part, while results are collected
        self._result_marks: Object = {}  # of the last message with results

    def write(self, request: rq.Request) -> Object:
        native, marks = self.split_extra(request.extra)
        if "interaction" in marks:
            return write_interaction(request, self)
        holds = NativeSupport(NAME, refusals=False, result_files=self._quirks.result_files)
        messages = embed_markers(request.messages, holds, self.report_carried, self.report_loss)
        first = next((position for position, one in enumerate(messages) if one.role != "system"), len(messages))
        self._collect_calls(messages)
        contents = self._write_contents(messages[first:])
        body: Object = {"contents": _unwrap_single(contents, marks)}
        if marks.get("model"):
            body["model"] = request.model
        if first:
            body["systemInstruction"] = self._write_system(messages[:first])
        subset = self._quirks.schemas == "subset"
        body |= request_writer.drop_empty(tools=write_tools(request.tools, self, subset=subset))
        choice: Object = {} if request.choice is None else {"functionCallingConfig": write_choice(request.choice, self)}
        settings = write_settings(request.settings, native, marks, self, subset=subset)
        for key, config in (("toolConfig", choice), ("generationConfig", settings)):
            if key in native or config:
                body[key] = {**native.get(key, {}), **config}
        body.update({key: value for key, value in native.items() if key not in ("toolConfig", "generationConfig")})
        request_writer.add_missing(body, marks.get("unsaid"))
        return _wrap_body(body, request.model, marks.get("outer"))

    def _collect_calls(self, messages: Iterable[rq.Message]) -> None:
        """Collects the calls, because results need their names and positions."""
        parts = (part for message in messages if message.role == "assistant" for part in message.parts)
        for call in (part for part in parts if type(part) is rq.Call):
            self._call_positions[call.id] = len(self._call_positions)
            self._call_names[call.id] = call.name
            if call.extra and any(one.get("minted") for one in request_writer.split_extra(call.extra, NAME)):
                self._minted.add(call.id)

    # ── contents ──────────────────────────────────────────────────────────────────────────────────

    def _write_system(self, messages: list[rq.Message]) -> Any:
        if len(messages) > 1:
            self.report_loss("system-join")
        native, marks = request_writer.split_extra(messages[0].extra, NAME)
        parts = [written for message in messages for part in message.parts for written in self._write_part(part)]
        if marks.get("bare") and len(parts) == 1:
            return parts[0]["text"]
        role = {"role": marks["role"]} if "role" in marks else {}
        return {**role, "parts": _unwrap_single(parts, marks), **native}

    def _write_contents(self, messages: Iterable[rq.Message]) -> list[Object]:
        contents: list[Object] = []
        for message in messages:
            if message.name:
                self.report_loss("name")
            native, marks = self.split_extra(message.extra)
            if message.role == "tool":
                self._collect_results(message, native, marks, contents)
            elif marks.get("joined") and self._results is not None:
                self._join_message(message, marks, contents)
            else:
                self._write_message(message, native, marks, contents)
        self._write_results(contents)
        if self._quirks.unsigned:
            self._sign_calls(contents)
        return contents

    def _sign_calls(self, contents: list[Object]) -> None:
        """Signs the first call of each step of the current turn if its signature is unknown. Other calls need none.

        The turn begins with the user's last message: https://ai.google.dev/gemini-api/docs/thought-signatures
        """
        for content in reversed(contents):
            parts: list[Object] = [content["parts"]] if isinstance(content["parts"], dict) else content["parts"]
            if content.get("role") != "model":
                if not any("functionResponse" in part for part in parts):
                    return
                continue
            call = next((part for part in parts if "functionCall" in part), None)
            if call is not None and "thoughtSignature" not in call:
                call["thoughtSignature"] = self._quirks.unsigned
                why = f"{NAME}: a call without a known thought signature is sent with a placeholder signature"
                self.diagnostics.add("call-unsigned", why)

    def _collect_results(self, message: rq.Message, native: Object, marks: Object, contents: list[Object]) -> None:
        """Collects the results of consecutive messages, which must be in one content right after the calls."""
        if self._results is None or marks.get("apart"):
            self._write_results(contents)
            self._results = []
            contents.append({"role": _get_role(marks, "user"), "parts": [], **native})
        for part in message.parts:
            call = part.call if type(part) is rq.Result else ""
            self._results += [(call, one) for one in self._write_part(part)]
        self._result_marks = marks

    def _write_results(self, contents: list[Object]) -> list[Object]:
        """Writes the collected results into their content."""
        if self._results is None:
            return []
        if not self._quirks.ids:
            self._results.sort(key=lambda row: self._call_positions.get(row[0], len(self._call_positions)))
        parts = [one for _, one in self._results]
        contents[-1]["parts"] = _unwrap_single(parts, self._result_marks)
        self._results = None
        return parts

    def _join_message(self, message: rq.Message, marks: Object, contents: list[Object]) -> None:
        """Writes a message into the content of the results that it came with."""
        parts = self._write_results(contents)
        positions = marks.get("places") or range(len(parts), len(parts) + len(message.parts))
        request_writer.insert_lists(parts, positions, [self._write_part(part) for part in message.parts])
        contents[-1]["parts"] = _unwrap_single(parts, self._result_marks)

    def _write_message(self, message: rq.Message, native: Object, marks: Object, contents: list[Object]) -> None:
        self._write_results(contents)
        sealed = self._seal_system(message.parts) if message.role == "system" else message.parts
        parts = [one for part in sealed for one in self._write_part(part)]
        if not parts:
            if message.role != "user":
                self.report_loss("empty")
                return
            self.report_carried("empty")  # an empty user message stays, because turns must alternate
            parts = [{"text": EMPTY_MARK}]
        role = _get_role(marks, "model" if message.role == "assistant" else "user")
        contents.append({**({"role": role} if role else {}), "parts": _unwrap_single(parts, marks), **native})

    def _seal_system(self, parts: list[rq.AnyPart]) -> list[rq.AnyPart]:
        """Writes a system message inside the conversation as the user's. The seal tells it from what users write."""
        if self._quirks.metadata:
            self.report_carried("mid-system")
            return wrap_system_parts(parts, SYSTEM_SEAL)
        self.report_loss("mid-system")
        return wrap_system_parts(parts)

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _write_part(self, part: rq.AnyPart) -> list[Object]:
        """Writes a part; an empty list if it is left out."""
        if part.cache:
            self.report_loss("cache")
        return self.part_writers[type(part)](self, part)

    def _write_text(self, part: rq.Text) -> list[Object]:
        if part.extra is None and part.text:
            return [{"text": part.text}]
        native, marks = self.split_extra(part.extra)
        if part.text or native or marks.get("empty"):
            return [{"text": part.text, **native}]
        self.report_loss("empty")  # the API refuses an empty part
        return []

    def _write_reasoning(self, part: rq.Reasoning) -> list[Object]:
        native, marks = self.split_extra(part.extra)
        if part.extra is not None and NAME not in part.extra:
            self.report_loss("reasoning-state")
        if part.form == "redacted":
            if not native:
                return []
            return [native] if marks.get("bare") else [{"text": "", **native}]
        if part.form != "full":
            self.report_loss("form")
        return [{"text": part.text, "thought": True, **native}] if part.text or native else []

    def _write_call(self, call: rq.Call) -> list[Object]:
        native, marks = self.split_extra(call.extra)
        if call.by == "provider":
            return self._write_provider_run(call.id, call.json, native, "args")
        args = self.write_call_input(call)
        if args is None:
            return []
        written: Object = {**self._write_id(call.id, call.id), "name": call.name, **native.get("functionCall", {})}
        if args or not marks.get("bare"):
            written["args"] = args
        return [{"functionCall": written, **_drop_keys(native, "minted", "functionCall")}]

    def _write_id(self, id: str, call: str) -> Object:
        if not id or call in self._minted:
            return {}
        if not self._quirks.ids:
            self.report_loss("call-id")
            return {}
        return {"id": id}

    def _write_provider_run(self, id: str, json: str, native: Object, field: str) -> list[Object]:
        """Writes a tool run of Google in the part it came in; reports a run that has no such part."""
        kind: str = native.get("part") or METADATA_ONLY
        value: Any = None if kind == METADATA_ONLY else decode_unless_too_deep(json or "{}")
        if kind == METADATA_ONLY or ("toolType" not in native and not hasattr(value, "keys")):
            self.report_loss("traces")
            return []
        inner: Any = {"toolType": native["toolType"], field: value} if "toolType" in native else value
        given_id = {} if native.get("minted") or not id else {"id": id}
        return [{kind: {**given_id, **inner}, **_drop_keys(native, "part", "toolType", "minted", "choice")}]

    def _write_result(self, result: rq.Result) -> list[Object]:
        native, marks = self.split_extra(result.extra)
        if result.by == "provider":
            return self._write_provider_run(result.call, result.json, native, "response")
        minted = native.get("minted") or marks.get("minted")
        id = marks.get("id") or ("" if minted else result.call)  # noqa: A001 — as the part calls it
        name = result.name or self._call_names.get(result.call) or "tool"
        written: Object = {**self._write_id(id, "" if "id" in marks else result.call), "name": name}
        content = self._convert_content(result.content)
        response = write_response(content, result.failed, marks)
        if response is not None:
            written["response"] = response
        files = [one for part in content if not isinstance(part, rq.Text | rq.Json) for one in self._write_part(part)]
        if files:
            written["parts"] = files
        written.update(native.get("functionResponse", {}))
        return [{"functionResponse": written, **_drop_keys(native, "minted", "functionResponse")}]

    def _convert_content(self, content: list[rq.ResultPart]) -> list[rq.ResultPart]:
        """Replaces result parts that a response cannot have, and reports what is lost."""
        converted: list[rq.ResultPart] = []
        for part in content:
            if isinstance(part, rq.Source):
                self.report_loss("source")
            elif isinstance(part, rq.Opaque) and part.protocol != NAME:
                self.report_loss("opaque")
                converted += [rq.Text(text) for text in (request_writer.collect_text(part.data),) if text]
            elif isinstance(part, rq.File) and not part.url and not part.data:
                self.report_loss("file", part.media)
                converted.append(rq.Text(request_writer.describe_file(part)))
            else:
                converted.append(part)
                if isinstance(part, rq.Text | rq.Json):
                    self.split_extra(part.extra)
                    if part.cache:
                        self.report_loss("cache")
        return converted

    def _write_file(self, part: rq.File) -> list[Object]:
        self.report_image_detail(part)
        native, marks = self.split_extra(part.extra)
        if not part.url and not part.data:
            self.report_loss("file", part.media)
            return [{"text": request_writer.describe_file(part)}]
        kind = "fileData" if part.url else "inlineData"
        source = {"fileUri": part.url} if part.url else {"data": part.data}
        if marks.get("web") and not part.url:
            source = {"data": part.data.translate(_TO_URL_SAFE)}
        name: Object = {"displayName": part.name} if part.name else {}
        media = {} if marks.get("untyped") else {"mimeType": self._get_media_type(part)}
        return [{kind: {**media, **source, **name, **native.get(kind, {})}, **_drop_keys(native, kind)}]

    def _get_media_type(self, part: rq.File) -> str:
        """Returns an exact type, guessed from the data, from the URL, or the most common one."""
        if not part.media.endswith("/*"):
            return part.media
        self.report_loss("media")
        suffix = part.url.partition("?")[0].rpartition(".")[2].lower()
        guessed = sniff_media_type(part.data) if part.data else ENUMS["media_types"].get(suffix, "")
        return guessed or ENUMS["default_media"].get(part.media.partition("/")[0], "text/plain")

    part_writers: ClassVar[Mapping[type, Callable[[Any, Any], list[Object]]]] = {
        rq.Text: _write_text,
        rq.Reasoning: _write_reasoning,
        rq.Call: _write_call,
        rq.Result: _write_result,
        rq.File: _write_file,
        rq.Opaque: request_writer.write_foreign_state(),
        **request_writer.OMITTED_PARTS,
    }


def _get_role(marks: Object, default: str) -> str:
    """Returns the role as it was sent; an empty string if it was not sent."""
    role: str = marks.get("role", default)
    return "" if role == "none" else role


def _drop_keys(fields: Object, *keys: str) -> Object:
    return {key: value for key, value in fields.items() if key not in keys}


def _unwrap_single(items: list[Object], marks: Object) -> Any:
    """Returns the only item itself if it was sent without a list."""
    return items[0] if marks.get("single") and len(items) == 1 else items


def _wrap_body(body: Object, model: str, wrapper: Object | None) -> Object:
    """Restores Code Assist's wrapper if there was one."""
    if not wrapper:
        return body
    return {**wrapper, **({"model": model} if "model" in wrapper else {}), "request": body}


def write_request(request: rq.Request, quirks: Quirks | None = None) -> request_writer.RequestDraft:
    """Writes a request as the body of a generateContent call."""
    return GeminiRequestWriter(quirks or Quirks()).write_body(request)
