"""Text that every target can carry: halves of characters mended, and inputs of calls that are JSON objects.

A lone surrogate cannot be written as UTF-8, and one of them makes a whole request fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock.jsontext import clean, is_json, usable
from penstock.messages.walking import change_parts, with_messages

if TYPE_CHECKING:
    from penstock.diagnostics import Diagnostics

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
    plain = clean(msgspec.to_builtins(replace(request, diagnostics=[])))
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
        again = usable(call.json) or _encode(clean(call.json)).decode()
        return replace(call, json=again if _is_object(again) else f'{{"input":{again}}}')

    return with_messages(request, change_parts(request.messages, _CALLS, mended))


def _is_object(json: str) -> bool:
    return json.lstrip().startswith("{") and is_json(json)
