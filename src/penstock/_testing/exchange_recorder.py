"""Records exchanges with providers and replays them: what `Cassette`, its transport and its proxy share."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

from penstock._redaction import is_secret_name
from penstock._testing.cassette_file import (
    RecordedExchange,
    RecordedRequest,
    RecordedResponse,
    read_cassette,
    request_fields,
    response_fields,
    write_cassette,
)
from penstock._testing.exchange_log import ExchangeLog, LoggedRequest
from penstock._testing.exchange_redaction import ExchangeRedactor, credentials_of
from penstock._testing.request_matching import RequestMatcher, describe_difference, same_host
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CassetteMode: TypeAlias = Literal["none", "once", "new", "all"]
MatchRule: TypeAlias = Literal["request", "order"]
MAX_EXCHANGE_BYTES = 64 * 2**20  # of a response's body
_MIN_SECRET = 8  # characters of a variable's value that is taken for a secret
_SHOWN_DIFFERENCES = 10  # that a message shows


class UnrecordedRequest(PenstockError, AssertionError):  # noqa: N818 — named like those of `penstock.errors`
    """A request that is not in the cassette, while nothing may be recorded."""


class OpenExchange:
    """An exchange while it is recorded. `finish` ends it; a second call does nothing."""

    def __init__(self, logged: LoggedRequest, url: str, secrets: tuple[str, ...]) -> None:
        self.logged = logged
        self.url = url
        self.secrets = secrets
        self.headers: dict[str, str] = {}
        self.chunks: list[tuple[float, bytes]] = []
        self.complete: bool = True
        self.is_finished: bool = False
        self._size = 0
        self._began = time.perf_counter()

    def set_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Sets the status and the headers of the response."""
        self.logged.answer_status, self.headers = status, dict(headers)
        self.logged.answer_type = self.headers.get("content-type", "")
        self.logged.follow_answer(self.chunks)

    def add_chunk(self, data: bytes) -> None:
        """Adds bytes of the body. What is over the limit is not recorded, and the exchange is incomplete."""
        self._size += len(data)
        if not self.is_finished and self._size <= MAX_EXCHANGE_BYTES:
            self.chunks.append((time.perf_counter() - self._began, data))

    def finish(self, *, complete: bool) -> None:
        """Ends the exchange. `complete`: the body came to its end."""
        if not self.is_finished:
            self.is_finished, self.complete = True, complete and self._size <= MAX_EXCHANGE_BYTES
            self.logged.answer_data = b"".join(data for _, data in self.chunks)


class ExchangeRecorder(ExchangeLog):
    """Recorded exchanges. `close` writes the file if something was recorded.

    `match`: `request` finds the exchange by method, path and body; `order` plays the exchanges one after the other and
    compares only method and path. `ignore` and `normalize` say what does not count in a body. `repeat` plays the last
    exchange of a request again and again. `timing` records when each chunk came, and waits as long when it is replayed.
    `secrets` are removed by value, beside the keys of requests and of the environment.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: CassetteMode = "none",
        *,
        match: MatchRule = "request",
        ignore: Sequence[str] = (),
        normalize: Callable[[Any], Any] | None = None,
        repeat: bool = False,
        timing: bool = False,
        secrets: Sequence[str] = (),
    ) -> None:
        if mode not in get_args(CassetteMode):
            raise InputError(f"mode: expected one of {', '.join(get_args(CassetteMode))}, found {mode!r}")
        if match not in get_args(MatchRule):
            raise InputError(f"match: expected one of {', '.join(get_args(MatchRule))}, found {match!r}")
        self.path: Path = Path(path)
        self.mode: CassetteMode = mode
        self.missing: list[str] = []  # requests that were not in the cassette, described
        self.hint: str = "record it with the mode 'once' (a new file) or 'new' (a file that exists)"
        self._exists = self.path.exists()
        self._stored = read_cassette(self.path) if self._exists and mode != "all" else []
        self._plays = [0] * len(self._stored)
        self._matcher = RequestMatcher(ignore, normalize, bodies=match == "request")
        self._in_order, self._repeat, self._timing = match == "order", repeat, timing
        self._secrets = tuple(secrets)
        self._session: list[LoggedRequest] = []
        self._recorded: list[OpenExchange] = []
        self._lock = threading.Lock()

    @property
    def records(self) -> bool:
        """True if requests that are not in the cassette are sent and recorded."""
        return self.mode in {"all", "new"} or (self.mode == "once" and not self._exists)

    @property
    def unplayed(self) -> list[str]:
        """The recorded requests that were not asked for."""
        rows = zip(self._stored, self._plays, strict=True)
        return [f"{one.request.method} {one.request.url}" for one, plays in rows if not plays]

    def assert_all_played(self) -> None:
        """Raises unless every recorded exchange was replayed."""
        if self.unplayed:
            rows = "".join(f"\n  {row}" for row in self.unplayed)
            raise AssertionError(f"{self.path}: {len(self.unplayed)} exchanges were not played:{rows}")

    def logged_requests(self) -> list[LoggedRequest]:
        """Returns the requests of this session."""
        return list(self._session)

    # ── used by the transport and the proxy ───────────────────────────────────────────────────────

    def replay(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, secrets: Sequence[str] = ()
    ) -> RecordedResponse | None:
        """Returns the recorded response to a request; None if the request is to be sent.

        Raises `UnrecordedRequest` if it is not in the cassette and nothing may be recorded.
        """
        with self._lock:
            sent = self._redacted_request(method, url, headers, body, self._known_secrets(headers, url, secrets))
            number = self._find(sent)
            if number is None and self.records:
                return None
            if number is None:
                message = self._describe_missing(sent)
                self.missing.append(message)
                raise UnrecordedRequest(message)
            self._plays[number] += 1
            response = self._stored[number].response
            logged = LoggedRequest(method, _target(url), headers, body)
            logged.answer_status, logged.answer_type = response.status, response.headers.get("content-type", "")
            logged.answer_data = b"".join(response.pieces())
            self._session.append(logged)
            return response

    def can_replay(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> bool:
        """True if a request is in the cassette and was not played yet."""
        with self._lock:
            known = self._known_secrets(headers, url, ())
            return self._find(self._redacted_request(method, url, headers, body, known)) is not None

    def start(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, secrets: Sequence[str] = ()
    ) -> OpenExchange:
        """Begins to record an exchange. Its place is that of the request, also if others end before it."""
        logged = LoggedRequest(method, _target(url), headers, body)
        exchange = OpenExchange(logged, url, self._known_secrets(headers, url, secrets))
        with self._lock:
            self._session.append(logged)
            self._recorded.append(exchange)
        return exchange

    def discard(self, exchange: OpenExchange) -> None:
        """Forgets an exchange that got no response."""
        with self._lock:
            self._recorded.remove(exchange)

    def _known_secrets(self, headers: Mapping[str, str], url: str, secrets: Sequence[str]) -> tuple[str, ...]:
        variables = (value for name, value in os.environ.items() if is_secret_name(name) and len(value) >= _MIN_SECRET)
        return (*self._secrets, *secrets, *credentials_of(headers, url), *variables)

    def _redacted_request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, secrets: Sequence[str]
    ) -> RecordedRequest:
        redactor = ExchangeRedactor(secrets)
        fields = redactor.redact_request(request_fields(body))
        return RecordedRequest(
            method=method, url=redactor.redact_url(url), headers=redactor.redact_headers(headers), **fields
        )

    # ── matching ──────────────────────────────────────────────────────────────────────────────────

    def _find(self, sent: RecordedRequest) -> int | None:
        """Returns the number of the exchange to play: the first that matches and was not played."""
        waiting = [number for number, plays in enumerate(self._plays) if not plays]
        found = [number for number, one in enumerate(self._stored) if self._matcher.matches(one.request, sent)]
        fresh = [number for number in (waiting[:1] if self._in_order else waiting) if number in found]
        if fresh:
            return next((n for n in fresh if same_host(self._stored[n].request, sent)), fresh[0])
        return found[-1] if found and self._repeat else None

    def _describe_missing(self, sent: RecordedRequest) -> str:
        played = sum(plays > 0 for plays in self._plays)
        state = f"{len(self._stored)} exchanges, {played} played" if self._exists else "no such file"
        rows = [f"{sent.method} {sent.url} is not in the recording", f"  file: {self.path} ({state})"]
        same = [number for number, one in enumerate(self._stored) if self._matcher.matches(one.request, sent)]
        if same and not any(self._plays[number] == 0 for number in same):
            times = "once" if len(same) == 1 else f"{len(same)} times"
            rows.append(f"  the same request was recorded {times} and is sent once more; repeat=True allows that")
        elif same:
            rows.append("  it is recorded, but another request comes before it: match='order' plays them as recorded")
        elif self._stored:
            rows += self._describe_nearest(sent)
        return "\n".join([*rows, f"  {self.hint}"])

    def _describe_nearest(self, sent: RecordedRequest) -> list[str]:
        numbers = sorted(range(len(self._stored)), key=lambda number: (self._plays[number] > 0, number))
        nearest = min(numbers, key=lambda number: self._matcher.distance(self._stored[number].request, sent))
        rows = self._matcher.differences(self._stored[nearest].request, sent)
        state = "played already" if self._plays[nearest] else "not played"
        places = "1 place" if len(rows) == 1 else f"{len(rows)} places"
        shown = [describe_difference(row) for row in rows[:_SHOWN_DIFFERENCES]]
        more = [f"    … and {len(rows) - _SHOWN_DIFFERENCES} more"] if len(rows) > _SHOWN_DIFFERENCES else []
        return [f"  nearest: exchange {nearest + 1} ({state}) differs in {places}:", *shown, *more]

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Writes the file, if something was recorded."""
        if self._recorded:
            write_cassette(self.path, [*self._stored, *self._finished()])
            self._recorded.clear()

    def _finished(self) -> list[RecordedExchange]:
        """Returns the recorded exchanges without secrets. What is a secret in one is removed from all."""
        secrets = tuple(dict.fromkeys(secret for one in self._recorded for secret in one.secrets))
        return [self._redacted_exchange(one, secrets) for one in self._recorded if one.logged.answer_status]

    def _redacted_exchange(self, one: OpenExchange, secrets: tuple[str, ...]) -> RecordedExchange:
        one.finish(complete=False)
        logged, redactor = one.logged, ExchangeRedactor(secrets)
        data, hidden = redactor.redact_response(logged.answer_data, logged.answer_type)
        times = [(round(at, 3), len(chunk)) for at, chunk in one.chunks] if self._timing and not hidden else []
        return RecordedExchange(
            self._redacted_request(logged.method, one.url, logged.headers, logged.body, secrets),
            RecordedResponse(
                status=logged.answer_status,
                headers=redactor.redact_headers(one.headers),
                complete=one.complete,
                hidden=hidden,
                times=times,
                **response_fields(data),
            ),
        )

    @property
    def waits(self) -> bool:
        """True if a replayed response waits as the recorded one did."""
        return self._timing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)


def _target(url: str) -> str:
    """Returns the path and the query of a URL."""
    rest = url.partition("://")[2]
    return f"/{rest.partition('/')[2]}"
