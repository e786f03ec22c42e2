"""Text that every target can carry: halves of characters mended, and inputs of calls that are JSON objects.

A lone surrogate cannot be written as UTF-8, and one of them makes a whole request fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock.errors import BadRequest
from penstock.jsontext import complete_json, is_json, replace_surrogates
from penstock.media import contradicts, sniff_media_type
from penstock.messages.traversal import change_list, change_parts, with_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.diagnostics import Diagnostics
    from penstock.request_profile import FileSupport

_CALLS = frozenset({rq.Call})
_encode = msgspec.json.Encoder().encode


def mend_texts(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """The request without lone surrogates; itself if it has none."""
    if written(request.tools):
        for message in request.messages:
            if not _sound(message.parts):
                break
        else:
            return request
    notes.add("surrogates", "half of a character, which cannot be sent, was replaced")
    plain = replace_surrogates(msgspec.to_builtins(replace(request, diagnostics=[])))
    return replace(msgspec.convert(plain, rq.Request), diagnostics=request.diagnostics)


def _sound(parts: list[Any]) -> bool:
    """Plain ASCII costs one look; whatever else there is must show that it can be written."""
    for part in parts:
        if type(part) is rq.Text:
            if part.text.isascii() and part.extra is None:
                continue
        elif type(part) is rq.Call:
            if part.extra is None and part.json.isascii() and part.name.isascii() and part.id.isascii():
                continue
        elif type(part) is rq.Result and part.extra is None and part.call.isascii() and _sound(part.content):
            continue
        if not written(part):
            return False
    return True


def written(value: Any) -> bool:
    """Whether a value can be written as JSON."""
    try:
        _encode(value)
    except UnicodeEncodeError:
        return False
    return True


def mend_inputs(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """Every call's input as one JSON object: rewritten if only a forgiving reader takes it, else told as a string."""

    def mended(call: rq.Call) -> rq.Call:
        if call.by == "provider" or call.form == "text" or _is_object(call.json or "{}"):
            return call
        notes.add("call-input", f"the input of a call of {call.name!r} is not a JSON object and was rewritten")
        again = complete_json(call.json) or _encode(replace_surrogates(call.json)).decode()
        return replace(call, json=again if _is_object(again) else f'{{"input":{again}}}')

    return with_messages(request, change_parts(request.messages, _CALLS, mended))


def _is_object(json: str) -> bool:
    return json.lstrip().startswith("{") and is_json(json)


Images: TypeAlias = Literal["placeholder", "skip", "error", "keep"]
ALIASES = {
    "image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png", "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav", "audio/wave": "audio/wav", "audio/x-flac": "audio/flac", "image/x-ms-bmp": "image/bmp",
}  # fmt: skip
_GUESSED = (
    "image/",
    "audio/",
    "video/",
    "application/pdf",
    "application/octet-stream",
)  # labels that bytes can correct
_FILES = frozenset({rq.File, rq.Result})
_UNITS = ("bytes", "kB", "MB", "GB")
_STEP = 1000


def check_media(request: rq.Request, notes: Diagnostics) -> rq.Request:
    """The request with the media types that the bytes of its files show."""

    def checked(part: Any) -> Any:
        if type(part) is rq.Result:
            content = change_list(part.content, _FILES, checked)
            return part if content is part.content else replace(part, content=content)
        media = true_media(part)
        if contradicts(media, part.data):
            notes.add("media-bytes", f"a file labelled {media!r} does not begin like one; it is sent as labelled")
        if media == part.media:
            return part
        if "*" not in part.media:
            notes.add("media-type", f"a file labelled {part.media!r} is sent as {media!r}")
        return replace(part, media=media)

    return _changed(request, lambda _: checked)


def true_media(file: rq.File) -> str:
    """The media type of a file: what its bytes show, if they show anything, else its label."""
    label = file.media.partition(";")[0].strip().lower()
    label = ALIASES.get(label, label)
    if not file.data or (label and not label.startswith(_GUESSED)):
        return label or "application/octet-stream"
    return sniff_media_type(file.data) or label or "application/octet-stream"


def place_files(request: rq.Request, holding: FileSupport, how: Images, notes: Diagnostics) -> rq.Request:
    """Files that may not be where they are, or not at all: a placeholder, nothing, or an error that names the place.

    `keep` leaves those that a writer can move where they are; what the target does not take at all it cannot help.
    """

    def refused(role: str) -> Callable[[Any], Any]:
        def place(part: Any) -> Any:
            if type(part) is rq.Result:
                content = change_list(part.content, _FILES, refused("result" if holding.results else ""))
                return part if content is part.content else replace(part, content=content)
            why = _refused(part, holding) or ("" if how == "keep" else _misplaced(role, holding))
            if not why:
                return part
            if how == "error":
                raise BadRequest(f"no file here ({why})", part)
            notes.add("file-refused", f"{why}: {'it is left out' if how == 'skip' else 'a placeholder stands for it'}")
            return None if how == "skip" else rq.Text(f"[{described(part)}]")

        return place

    return _changed(request, refused)


def _misplaced(role: str, holding: FileSupport) -> str:
    if role == "result" or role in holding.roles:
        return ""
    return f"a file may not stand in {f'a message of role {role}' if role else 'a tool result'}"


def _refused(file: rq.File, holding: FileSupport) -> str:
    if not file.media.startswith(holding.media) and file.media != "*/*":
        return f"the target takes no {file.media}"
    if holding.limit and size(file) > holding.limit:
        return f"a file of {_measure(size(file))} is over the limit of {_measure(holding.limit)}"
    return ""


def _changed(request: rq.Request, change: Callable[[str], Callable[[Any], Any]]) -> rq.Request:
    """The request with its files changed; what goes wrong says in which message and part."""
    messages = request.messages
    if not any_file(messages):
        return request
    made: list[rq.Message] | None = None
    for place, message in enumerate(messages):
        try:
            parts = change_list(message.parts, _FILES, change(message.role))
        except BadRequest as error:
            raise error.at(_first(message, change)).at("content").at(place).at("messages") from None
        if parts is not message.parts:
            made = list(messages) if made is None else made
            made[place] = replace(message, parts=parts)
    return with_messages(request, made or messages)


def any_file(messages: list[rq.Message]) -> bool:
    """Whether there is a file anywhere."""
    for message in messages:
        for part in message.parts:
            if type(part) is rq.File:
                return True
            if type(part) is rq.Result:
                for inner in part.content:
                    if type(inner) is rq.File:
                        return True
    return False


def _first(message: rq.Message, change: Callable[[str], Callable[[Any], Any]]) -> int:
    """Which part it was that went wrong."""
    for place, part in enumerate(message.parts):
        try:
            change_list([part], _FILES, change(message.role))
        except BadRequest:
            return place
    return 0


def size(file: rq.File) -> int:
    """The bytes that base64 data stands for; 0 for a file that is elsewhere."""
    return len(file.data) * 3 // 4 - file.data[-2:].count("=")


def described(file: rq.File) -> str:
    """A file in a few words, for where it cannot be shown."""
    kind = "image" if file.media.startswith("image/") else "file"
    words = [file.name or kind, file.media, _measure(size(file)) if file.data else file.url]
    return ", ".join(word for word in words if word)


def _measure(count: int) -> str:
    value, unit = float(count), 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{value:.0f} {_UNITS[unit]}"
