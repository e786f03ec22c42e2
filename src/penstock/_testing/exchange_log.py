"""What was asked and answered in a test: the requests as canonical requests, the answers as turns, and assertions.

A scripted upstream and a cassette have the same log. Requests that are not turns (embeddings, lists of models) count
as requests, and have neither calls nor usage.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._fold import sum_usage
from penstock._lenient_fields import as_object
from penstock._lenient_json import parse_lenient
from penstock._messages.request_codecs import reader
from penstock._testing.dialects import Dialect, find_dialect
from penstock._testing.reply_content import decode_answer
from penstock.errors import InputError
from penstock.request import Call, Request, Result, Text, Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.events import Usage

_SUCCESS = 2  # first digit of the status
_SHOWN = 200  # characters of a text in a message


class LoggedRequest:
    """A request: method, path, headers, body; and the answer to it, as far as it was sent."""

    def __init__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        self.method: str = method
        self.target: str = target  # path and query, as they were sent
        self.headers: dict[str, str] = dict(headers)  # names in lower case
        self.body: bytes = body
        self.answer_status: int = 0  # 0: there is no answer
        self.answer_type: str = ""  # the content type of the answer
        self._answer_data: bytes = b""
        self._answer_pieces: list[tuple[float, bytes]] | None = None
        self._decoded: tuple[bytes, Turn] | None = None

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.body)

    @cached_property
    def dialect(self) -> Dialect | None:
        """The protocol it speaks, and whether it asks for a stream; None if it is not a request for a turn."""
        return find_dialect(self.path, self.query, parse_lenient(self.body))

    @cached_property
    def request(self) -> Request:
        """The request in canonical form: messages, tools, settings."""
        if self.dialect is None:
            raise InputError(f"{self!r} is not a request for a turn")
        body = as_object(parse_lenient(self.body))
        protocol = self.dialect.protocol
        # Mistral's and others' requests to complete code have a prompt in place of messages.
        return reader("completions" if protocol == "openai-chat" and "messages" not in body else protocol)(body)

    @property
    def model(self) -> str:
        """The model that is asked for: in the body, else in the path."""
        body = as_object(parse_lenient(self.body))
        if isinstance(named := body.get("model") or body.get("model_id"), str):
            return named
        for mark in ("/models/", "/model/"):
            if mark in self.path:
                return self.path.partition(mark)[2].partition(":")[0].partition("/")[0]
        return ""

    @property
    def prompt(self) -> str:
        """The text of the last message of the user."""
        users = [message for message in self.request.messages if message.role == "user"]
        return "".join(part.text for part in users[-1].parts if isinstance(part, Text)) if users else ""

    @property
    def tools(self) -> list[str]:
        """The names of the tools on offer."""
        return [tool.name for tool in self.request.tools]

    @property
    def results(self) -> list[Result]:
        """The results of tools that follow the last message of the model."""
        messages = self.request.messages
        answers = [number for number, message in enumerate(messages) if message.role == "assistant"]
        new = messages[answers[-1] + 1 :] if answers else messages
        return [part for message in new for part in message.parts if isinstance(part, Result)]

    @property
    def result_text(self) -> str:
        """The text of these results; empty if there is none."""
        return "\n".join(_result_text(part) for part in self.results)

    @property
    def answer_data(self) -> bytes:
        """The body of the answer, as far as it was sent."""
        pieces = self._answer_pieces
        return self._answer_data if pieces is None else b"".join(data for _, data in list(pieces))

    @answer_data.setter
    def answer_data(self, data: bytes) -> None:
        self._answer_data, self._answer_pieces = data, None

    def follow_answer(self, pieces: list[tuple[float, bytes]]) -> None:
        """The answer begins. `pieces` grows until `answer_data` is set."""
        self._answer_pieces = pieces

    @property
    def turn(self) -> Turn | None:
        """The answer, as far as it was sent; None if there is none, or it is an error."""
        if self.dialect is None or self.answer_status // 100 != _SUCCESS:
            return None
        data = self.answer_data
        if self._decoded is None or self._decoded[0] != data:
            self._decoded = data, decode_answer(self.dialect, data, self.answer_type)
        return self._decoded[1]

    def __repr__(self) -> str:
        return f"<{self.method} {self.path}, {len(self.body)} bytes>"


class ExchangeLog:
    """What was asked and answered, with assertions whose messages show what happened instead."""

    def logged_requests(self) -> list[Any]:
        """Returns the requests so far, in order. Each is a `LoggedRequest`."""
        raise NotImplementedError

    @property
    def last(self) -> LoggedRequest:
        """The last request."""
        found = self._found()
        if not found:
            raise AssertionError("no request was received")
        return found[-1]

    @property
    def turns(self) -> list[Turn]:
        """The answers that were sent, without errors."""
        return [turn for one in self._found() if (turn := one.turn) is not None]

    @property
    def calls(self) -> list[Call]:
        """The tool calls that the model asked for."""
        return [call for turn in self.turns for call in turn.calls]

    @property
    def results(self) -> list[tuple[str, str]]:
        """The results of tools that the program sent back: the tool's name and the text of its result."""
        found: list[tuple[str, str]] = []
        for one in self._turn_requests():
            names = {
                part.id: part.name
                for message in one.request.messages
                for part in message.parts
                if isinstance(part, Call)
            }
            found += [(part.name or names.get(part.call, ""), _result_text(part)) for part in one.results]
        return found

    @property
    def usage(self) -> Usage:
        """The sum of the tokens of all answers."""
        return sum_usage([turn.usage for turn in self.turns if turn.usage is not None])

    def assert_request_count(self, count: int) -> None:
        """Raises unless so many requests were received."""
        found = self._found()
        if len(found) != count:
            rows = "".join(f"\n  {number}. {_describe(one)}" for number, one in enumerate(found, 1))
            raise AssertionError(f"expected {count} requests, received {len(found)}{':' if rows else ''}{rows}")

    def assert_call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Call:
        """Returns the call that the model asked for. Raises unless there is one with this name and these arguments.

        Arguments that are not given may have any value.
        """
        for call in self.calls:
            if call.name == name and _contains(_arguments(call), arguments or {}):
                return call
        asked = "".join(f"\n  {call.name}({call.json})" for call in self.calls) or " none"
        wanted = "" if arguments is None else f" with {msgspec.json.encode(arguments).decode()}"
        raise AssertionError(f"the model did not ask for {name}{wanted}; the calls it asked for:{asked}")

    def assert_result(self, name: str, text: str = "") -> str:
        """Returns the result that the program sent for a tool. Raises unless there is one that contains the text."""
        for tool, result in self.results:
            if tool == name and text in result:
                return result
        found = "".join(f"\n  {tool}: {_cut(result)}" for tool, result in self.results) or " none"
        wanted = f" that contains {text!r}" if text else ""
        raise AssertionError(f"no result of {name}{wanted} was sent; the results that were sent:{found}")

    def _found(self) -> list[LoggedRequest]:
        return self.logged_requests()

    def _turn_requests(self) -> list[LoggedRequest]:
        return [one for one in self._found() if one.dialect is not None]


def _describe(one: LoggedRequest) -> str:
    asked = f" {_cut(one.prompt)!r}" if one.dialect is not None else ""
    return f"{one.method} {one.path}{asked}"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _result_text(result: Result) -> str:
    return "".join(getattr(part, "text", "") or getattr(part, "json", "") for part in result.content)


def _arguments(call: Call) -> Any:
    return parse_lenient(call.json.encode()) if call.json else {}


def _contains(given: Any, wanted: Mapping[str, Any]) -> bool:
    found = as_object(given)
    return all(name in found and found[name] == value for name, value in wanted.items())
