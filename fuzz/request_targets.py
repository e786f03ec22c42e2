"""Targets for requests: every reader, every writer, the token estimator, and JSON that is almost JSON."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from fuzz.mutation import JsonMutator
from fuzz.target import BrokenPromiseError, Target, Verdict, pick, promise
from penstock import _protocols as protocols
from penstock._gateway.endpoints import IncomingRequest
from penstock._lenient_json import parse_lenient, replace_surrogates
from penstock._messages.convert import convert, convert_request
from penstock._messages.request_codecs import reader, writer
from penstock.errors import BadRequest, PenstockError
from penstock.request import Request
from penstock.tokens import HybridTokenEstimator
from tests.support import request_cases
from tests.support import request_protocols as requesting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuzz.mutation import Mutator
    from fuzz.target import Check

_read_request = msgspec.json.Decoder(Request).decode
_estimator = cache(HybridTokenEstimator)
MODELS = (("claude-sonnet-4-5", "anthropic"), ("gpt-5.2", "openai"), ("gemini-2.5-pro", "gemini"), ("x", ""))


def readers() -> list[str]:
    return [name for name in protocols.MODULES if _has(reader, name)]


def writers() -> list[str]:
    return [name for name in protocols.MODULES if _has(writer, name)]


def _has(find: Any, name: str) -> bool:
    try:
        find(name)
    except PenstockError:
        return False
    return True


def check_reader(data: bytes, *, name: str, targets: Sequence[str]) -> Verdict:
    """A body is read, or refused by a typed error that names the place. What was read can be written for any target."""
    visit = IncomingRequest({"method": "POST", "path": "/", "headers": []})
    visit.raw = data
    try:
        request = reader(name)(visit.json_body())
    except BadRequest as error:
        return bool(error.path), ("refused", _shape(error.path), error.expected)
    except PenstockError as error:
        return False, type(error).__name__
    if pick(data, range(2), 3):
        return True, _features(request)
    target = pick(data, targets, 5)
    try:
        made = convert(data, name, target, orphans=pick(data, ("text", "drop"), 7))
    except PenstockError as error:
        return True, ("not converted", target, type(error).__name__)
    _check_written(made.body)
    return True, (target, frozenset(found.code for found in made.diagnostics))


def check_writer(data: bytes, *, name: str, sources: Sequence[str]) -> Verdict:
    """Whatever canonical request there is, a body is written for it, or there is a typed error."""
    try:
        request = _read_request(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False, "not canonical"
    try:
        made = convert_request(request, pick(data, sources, 3), name)
    except PenstockError as error:
        return True, type(error).__name__
    _check_written(made.body)
    return True, frozenset(found.code for found in made.diagnostics)


def _check_written(body: Any) -> None:
    """A body that cannot be sent is of no use."""
    try:
        msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise BrokenPromiseError(f"the body cannot be sent: {error}") from error


def check_tokens(data: bytes) -> Verdict:
    """An estimate is a number."""
    try:
        request = _read_request(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False, "not canonical"
    model, provider = pick(data, MODELS, 3)
    found = _estimator().estimate_conversation(request, model, provider)
    promise(math.isfinite(found.tokens) and found.tokens >= 0, f"an estimate of {found.tokens} tokens")
    return True, (model, len(str(int(found.tokens))))


def check_loose_json(data: bytes) -> Verdict:
    """A forgiving reader reads JSON as a strict one does, and whatever it reads can be written."""
    value = replace_surrogates(parse_lenient(data))
    try:
        strict = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        strict = None
    else:
        promise(strict is None or value == strict or value is None, "strict JSON is read as something else")
    if value is not None:
        msgspec.json.encode(value)
    return value is not None, (type(value).__name__, strict is None)


def _shape(path: str) -> str:
    return "".join(letter for letter in path if not letter.isdigit())


def _features(request: Request) -> Any:
    return frozenset(type(part).__name__ for message in request.messages for part in message.parts)


# ── seeds ─────────────────────────────────────────────────────────────────────────────────────────

SMALL = (
    b'{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5,"prompt":"p","contents":[],"input":"hi"}'
)


@cache
def bodies(name: str) -> list[bytes]:
    """The bodies of a protocol in the golden requests."""
    found = [case.path / f"{name}.json" for case in request_cases.cases() if name in case.targets]
    return [msgspec.json.encode(msgspec.json.decode(path.read_bytes())) for path in found] or [SMALL]


@cache
def canonical() -> list[bytes]:
    found = [case.path / "canonical.json" for case in request_cases.cases()]
    return [msgspec.json.encode(msgspec.json.decode(path.read_bytes())) for path in found if path.exists()]


def load_reader(name: str) -> tuple[Sequence[bytes], Mutator, Check]:
    seeds = bodies(name)
    return seeds, JsonMutator(seeds), partial(check_reader, name=name, targets=writers())


def load_canonical(check: Check) -> tuple[Sequence[bytes], Mutator, Check]:
    return canonical(), JsonMutator(canonical()), check


def load_loose() -> tuple[Sequence[bytes], Mutator, Check]:
    seeds = [body for name in requesting.MAIN for body in bodies(name)]
    return seeds, JsonMutator(seeds), check_loose_json


def targets() -> list[Target]:
    """All targets of this module."""
    read = "a request is read, or an error names a place inside the body"
    valid = "the input is a canonical request"
    made = [Target(f"request-read-{name}", read, partial(load_reader, name)) for name in readers()]
    made += [
        Target(
            f"request-write-{name}", valid, partial(load_canonical, partial(check_writer, name=name, sources=readers()))
        )
        for name in writers()
    ]
    return [
        *made,
        Target("tokens", valid, partial(load_canonical, check_tokens)),
        Target("json-loose", "a value is read", load_loose),
    ]
