"""An answer seen on its way out: its last word is the whole response, which is kept before the client can ask for it.

Put around ASGI's `send`. Looks at bytes only, so that what is kept is what was sent, translated or not.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick
from penstock.framing import SseParser
from penstock.http.response_writer import BODY
from penstock.json_depth import decode_deep

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.pick import Object

    Send = Callable[[Any], Awaitable[None]]

ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_END = re.compile(rb"response\.(?:completed|incomplete|failed)[\"\s]")
_OK = 200
log = logging.getLogger("penstock.gateway")


class Keeping:
    """Calls `keep` with the response, once. An answer that is refused has none."""

    __slots__ = ("_done", "_keep", "_parser", "_status", "_stream")

    def __init__(self, keep: Callable[[Object], None]) -> None:
        self._keep = keep
        self._status = _OK
        self._stream = True
        self._done = False
        self._parser: SseParser | None = None

    def over(self, send: Send) -> Send:
        async def sending(message: Any) -> None:
            if message["type"] != BODY:
                self._status = message["status"]
                self._stream = any(value.startswith(b"text/event-stream") for _, value in message["headers"])
            elif not self._done and message["body"]:
                self._look(message["body"])
            await send(message)

        return sending

    def _look(self, data: bytes) -> None:
        if not self._stream:
            if self._status == _OK:
                self._found(_value(data))
        elif self._parser is not None or _END.search(data) is not None:
            self._parser = self._parser or SseParser()
            for _, payload in self._parser.feed([data]):
                if _END.search(payload) is not None:  # unless the words stand in somebody's text
                    value = _value(payload)
                    self._found(value["response"] if value.get("type") in ENDS and "response" in value else {})

    def _found(self, response: Any) -> None:
        value = pick.as_object(response)
        if pick.text(value, "id") and isinstance(value.get("output"), list):
            self._done = True
            try:
                self._keep(value)
            except Exception:  # the answer itself is none the worse for it
                log.exception("response %s was not kept", value["id"])


def _value(data: bytes) -> Object:
    try:
        return pick.as_object(decode_deep(data, trusted=True))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
