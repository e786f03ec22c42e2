"""Texts, call inputs and files in a form that every target accepts: surrogates, JSON objects, media types.

A lone surrogate cannot be written as UTF-8, and one of them makes a whole request fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._lenient_json import complete_json, is_json, replace_surrogates
from penstock._media import contradicts, sniff_media_type
from penstock._messages.traversal import change_list, change_parts, with_messages
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._diagnostics import Diagnostics
    from penstock._request_profile import FileSupport

_CALLS = frozenset({rq.Call})
_encode = msgspec.json.Encoder().encode


def mend_texts(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """Replaces lone surrogates; returns the same request if there are none."""
    if is_encodable(request.tools):
        for message in request.messages:
            if not _is_encodable(message.parts):
                break
        else:
            return request
    notes.add("surrogates", "half of a character, which cannot be sent, was replaced")
    plain = replace_surrogates(msgspec.to_builtins(replace(request, diagnostics=[])))
    return replace(msgspec.convert(plain, rq.Request), diagnostics=request.diagnostics)


def _is_encodable(parts: list[Any]) -> bool:
    """True if all parts can be encoded. ASCII is checked quickly; the rest is encoded."""
    for part in parts:
        if type(part) is rq.Text:
            if part.text.isascii() and part.extra is None:
                continue
        elif type(part) is rq.Call:
            if part.extra is None and part.json.isascii() and part.name.isascii() and part.id.isascii():
                continue
        elif type(part) is rq.Result and part.extra is None and part.call.isascii() and _is_encodable(part.content):
            continue
        if not is_encodable(part):
            return False
    return True


def is_encodable(value: Any) -> bool:
    """True if a value can be encoded as JSON."""
    try:
        _encode(value)
    except UnicodeEncodeError:
        return False
    return True


def mend_inputs(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """Rewrites every call input that is not a JSON object: repaired if possible, else as a string in an object."""

    def rewritten(call: rq.Call) -> rq.Call:
        if call.by == "provider" or call.form == "text" or _is_object(call.json or "{}"):
            return call
        notes.add("call-input", f"the input of a call of {call.name!r} is not a JSON object and was rewritten")
        rewritten_json = complete_json(call.json) or _encode(replace_surrogates(call.json)).decode()
        return replace(call, json=rewritten_json if _is_object(rewritten_json) else f'{{"input":{rewritten_json}}}')

    return with_messages(request, change_parts(request.messages, _CALLS, rewritten))


def _is_object(json: str) -> bool:
    return json.lstrip().startswith("{") and is_json(json)


Images: TypeAlias = Literal["placeholder", "skip", "error", "keep"]
ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-flac": "audio/flac",
    "image/x-ms-bmp": "image/bmp",
}
# Labels that the first bytes can correct.
_DETECTABLE = ("image/", "audio/", "video/", "application/pdf", "application/octet-stream")
_FILE_KINDS = frozenset({rq.File, rq.Result})
_UNITS = ("bytes", "kB", "MB", "GB")
_UNIT_STEP = 1000


def check_media(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """Corrects the media types of files by their first bytes."""

    def checked(part: Any) -> Any:
        if type(part) is rq.Result:
            content = change_list(part.content, _FILE_KINDS, checked)
            return part if content is part.content else replace(part, content=content)
        media = detect_media_type(part)
        if contradicts(media, part.data):
            notes.add("media-bytes", f"a file labelled {media!r} does not begin like one; it is sent as labelled")
        if media == part.media:
            return part
        if "*" not in part.media:
            notes.add("media-type", f"a file labelled {part.media!r} is sent as {media!r}")
        return replace(part, media=media)

    return _change_files(request, lambda _: checked)


def detect_media_type(file: rq.File) -> str:
    """Returns the media type of a file by its bytes, else its label."""
    label = file.media.partition(";")[0].strip().lower()
    label = ALIASES.get(label, label)
    if not file.data or (label and not label.startswith(_DETECTABLE)):
        return label or "application/octet-stream"
    return sniff_media_type(file.data) or label or "application/octet-stream"


def place_files(request: rq.Request, holding: FileSupport, how: Images, notes: Diagnostics) -> rq.Request:
    """Replaces files that the target does not accept where they are: a placeholder, nothing, or an error.

    `keep` leaves files that a writer can move. Files that the target accepts nowhere are replaced in any case.
    """

    def refused(role: str) -> Callable[[Any], Any]:
        def position(part: Any) -> Any:
            if type(part) is rq.Result:
                content = change_list(part.content, _FILE_KINDS, refused("result" if holding.results else ""))
                return part if content is part.content else replace(part, content=content)
            reason = _why_refused(part, holding) or ("" if how == "keep" else _why_misplaced(role, holding))
            if not reason:
                return part
            if how == "error":
                raise BadRequest(f"no file here ({reason})", part)
            notes.add(
                "file-refused", f"{reason}: {'it is left out' if how == 'skip' else 'a placeholder stands for it'}"
            )
            return None if how == "skip" else rq.Text(f"[{describe_file(part)}]")

        return position

    return _change_files(request, refused)


def _why_misplaced(role: str, holding: FileSupport) -> str:
    if role == "result" or role in holding.roles:
        return ""
    return f"a file may not stand in {f'a message of role {role}' if role else 'a tool result'}"


def _why_refused(file: rq.File, holding: FileSupport) -> str:
    if not file.media.startswith(holding.media) and file.media != "*/*":
        return f"the target takes no {file.media}"
    if holding.limit and decoded_size(file) > holding.limit:
        return f"a file of {_format_size(decoded_size(file))} is over the limit of {_format_size(holding.limit)}"
    return ""


def _change_files(request: rq.Request, change: Callable[[str], Callable[[Any], Any]]) -> rq.Request:
    """Changes the files of a request. An error names the message and the part."""
    messages = request.messages
    if not has_file(messages):
        return request
    changed_messages: list[rq.Message] | None = None
    for position, message in enumerate(messages):
        try:
            parts = change_list(message.parts, _FILE_KINDS, change(message.role))
        except BadRequest as error:
            raise error.at(_first_failing_part(message, change)).at("content").at(position).at("messages") from None
        if parts is not message.parts:
            changed_messages = list(messages) if changed_messages is None else changed_messages
            changed_messages[position] = replace(message, parts=parts)
    return with_messages(request, changed_messages or messages)


def has_file(messages: list[rq.Message]) -> bool:
    """True if any message has a file."""
    for message in messages:
        for part in message.parts:
            if type(part) is rq.File:
                return True
            if type(part) is rq.Result:
                for inner in part.content:
                    if type(inner) is rq.File:
                        return True
    return False


def _first_failing_part(message: rq.Message, change: Callable[[str], Callable[[Any], Any]]) -> int:
    """Returns the position of the part that raised the error."""
    for position, part in enumerate(message.parts):
        try:
            change_list([part], _FILE_KINDS, change(message.role))
        except BadRequest:
            return position
    return 0


def decoded_size(file: rq.File) -> int:
    """Returns the size of the decoded data; 0 for a file given by URL."""
    return len(file.data) * 3 // 4 - file.data[-2:].count("=")


def describe_file(file: rq.File) -> str:
    """Describes a file in a few words, for a placeholder."""
    kind = "image" if file.media.startswith("image/") else "file"
    words = [file.name or kind, file.media, _format_size(decoded_size(file)) if file.data else file.url]
    return ", ".join(word for word in words if word)


def _format_size(count: int) -> str:
    value, unit = float(count), 0
    while value >= _UNIT_STEP and unit < len(_UNITS) - 1:
        value, unit = value / _UNIT_STEP, unit + 1
    return f"{value:.0f} {_UNITS[unit]}"
