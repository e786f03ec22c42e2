"""The exceptions penstock raises. Errors inside a stream are `Fault` events.

    PenstockError
    ├── InputError            an argument or input cannot be used; the message names the place and the fix
    │   ├── UnknownProtocol   no protocol of that name, or it cannot be read or written
    │   ├── UnknownParameter  a function has no parameter of that name; a `TypeError`, too
    │   ├── Unrecognised      the protocol of a stream is not recognised
    │   ├── BadRequest        a request that cannot be read: the path, what was found, what was expected
    │   │   └── TooDeep       a request whose JSON is nested deeper than the limit
    │   ├── FramingError      the bytes are not the framing they were said to be
    │   └── FrameTooLarge     one frame is larger than the limit
    ├── BudgetExceeded        the budget of a client is spent: the request was not sent
    ├── MissingExtra          an optional dependency is needed; the message names the extra
    ├── ToolError             raised by a tool: the model is shown its message
    ├── InvalidOutput         the model's output does not fit the type that was asked for
    ├── StreamFault           a `Fault` event, raised because the caller asked for an exception
    │   └── ProviderError     a provider refused, failed or was not reached: status, code, request id, retry-after …
    │       ├── AuthError           the key is not accepted
    │       ├── PermissionDenied    the key has no permission
    │       │   └── QuotaExceeded   no credit left, or a limit on spending is reached: waiting does not help
    │       ├── NotFound            no such model or address
    │       ├── InvalidRequest      the provider refuses the request
    │       │   └── TooLarge        the request exceeds a limit of the model
    │       ├── RateLimited         too many requests or tokens at the moment
    │       ├── Overloaded          the provider is busy, or its circuit breaker is open
    │       ├── ServerError         the provider failed
    │       ├── TimedOut            no answer in time
    │       ├── NetworkError        not reached, or the connection broke
    │       │   └── McpServerError  an MCP server did not start, did not answer in time, or broke off
    │       ├── Filtered            a policy forbids the prompt or the answer
    │       ├── Cancelled           the request was cancelled
    │       └── BadAnswer           the answer was cut off or cannot be read
    └── GrammarError          a codec violates the event grammar: a bug, please report it

`explain(error)` prints everything that is known about one, for a bug report; secrets are removed before they get here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock._input_limits import MAX_JSON_DEPTH
from penstock._redaction import redact, redact_headers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock.events import Fault

_JSON_KINDS: dict[type, str] = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number"}
_JSON_KINDS[float] = "a number"


class PenstockError(Exception):
    """The base class of penstock's exceptions. They can be pickled, for programs with several processes.

    Examples:
        >>> try:
        ...     raise ToolError("no such river")
        ... except PenstockError as error:
        ...     print(error)
        no such river
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(kind: type[PenstockError], args: tuple[Any, ...], fields: dict[str, Any]) -> PenstockError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


def closest_name(name: str, names: Sequence[str]) -> str:
    """Returns the name that is spelled most alike; an empty string if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 — only errors need it

    return next(iter(get_close_matches(name, names, 1)), "")


class InputError(PenstockError, ValueError):
    """An argument or input cannot be used."""


class UnknownProtocol(InputError):
    """No such protocol, or it cannot be read or written."""

    def __init__(self, name: str, known: Iterable[str], what: str = "protocol", *, meant: str = "") -> None:
        self.name = name
        names = sorted(known)
        meant = meant or closest_name(name.lower(), names)
        hint = f"did you mean {meant!r}? Known are" if meant in names else "known are"
        super().__init__(f"unknown {what} {name!r}; {hint}: {', '.join(names)}")


class UnknownParameter(InputError, TypeError):
    """A function has no parameter of this name. `hint` says which name to use."""

    def __init__(self, function: str, name: str, hint: str = "") -> None:
        self.function = function
        self.name = name
        self.hint = hint
        super().__init__(f"{function} has no parameter {name!r}{'; ' if hint else ''}{hint}")


class Unrecognised(InputError):
    """The protocol of a stream is not recognised."""

    def __init__(self, frames: int, known: Iterable[str]) -> None:
        seen = "no protocol knows what is in it" if frames else "there is nothing in it"
        super().__init__(f"cannot tell the protocol of the stream: {seen}; known are: {', '.join(sorted(known))}")


class BadRequest(InputError):
    """A value of a request has the wrong type. Readers extend the path from the inside out."""

    def __init__(self, expected: str, found: object, step: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.found: str = "null" if found is None else _JSON_KINDS.get(type(found), type(found).__name__)
        self.path: str = step

    def at(self, step: str | int) -> BadRequest:
        """Adds a step to the front of the path and returns the error."""
        step = f"[{step}]" if isinstance(step, int) else step
        self.path = step + ("" if not self.path or self.path.startswith("[") else ".") + self.path
        return self

    def __str__(self) -> str:
        return f"{self.path or 'the body'}: expected {self.expected}, found {self.found}"


class TooDeep(BadRequest):
    """A request whose JSON is nested deeper than the limit."""

    def __init__(self, path: str = "") -> None:
        super().__init__(f"at most {MAX_JSON_DEPTH} levels of nesting", None, path)

    def __str__(self) -> str:
        at = f" at {self.path}" if self.path else ""
        return f"the body nests deeper than {MAX_JSON_DEPTH} levels{at}; send it with fewer levels"


class FramingError(InputError):
    """The bytes violate the framing."""


class FrameTooLarge(InputError):
    """A frame is larger than the limit."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"a frame of at least {size} bytes is over the limit of {limit}; raise `limit` to accept it")


class MissingExtra(PenstockError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"this needs the package {package!r}: pip install 'penstock[{extra}]'")


class BudgetExceeded(PenstockError):
    """The budget of a client is spent. The request was not sent. Amounts are US dollars."""

    def __init__(self, budget: float, spent: float) -> None:
        self.budget = budget
        self.spent = spent
        super().__init__(f"the budget of ${budget:g} is spent (${spent:.6g} so far), so the request was not sent")


class ToolError(PenstockError):
    """An error for the model. A tool raises it; the model sees the message as the result of its call."""


class InvalidOutput(PenstockError):
    """The output of a model does not fit the type that was asked for. `text` is what the model wrote."""

    def __init__(self, message: str, text: str) -> None:
        self.text = text
        super().__init__(message)


class StreamFault(PenstockError):
    """A fault of the stream, as an exception."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(f"{fault.kind}: {fault.message}")


class ProviderError(StreamFault):
    """An error of a provider. `attempts` are the errors of earlier attempts.

    `reached` is False if no connection was made, so that the provider cannot have seen the request. `partial`: other
    requests of the same call, those of further batches, may have been answered.
    """

    hint: ClassVar[str] = ""
    reached: bool = True
    partial: bool = False

    def __init__(
        self,
        fault: Fault,
        *,
        provider: str = "",
        model: str = "",
        body: str = "",
        headers: Mapping[str, str] | None = None,
        attempts: Iterable[ProviderError] = (),
    ) -> None:
        super().__init__(fault)
        self.message: str = fault.message
        self.status: int | None = fault.status
        self.code: str = fault.code
        self.kind = fault.kind
        self.request_id: str = fault.request_id
        self.retry_after: float | None = fault.retry_after
        self.provider = provider
        self.model = model
        self.body = body
        self.headers: dict[str, str] = dict(headers or {})
        self.attempts: list[ProviderError] = list(attempts)

    def __str__(self) -> str:
        who = "/".join(filter(None, (self.provider, self.model)))
        status = f" ({self.status})" if self.status else ""
        return f"{who}: {self.kind}{status}: {self.message}" if who else f"{self.kind}{status}: {self.message}"


class AuthError(ProviderError):
    """The provider does not accept the key."""

    hint = "check the key: `penstock doctor` shows which variable it is read from"


class PermissionDenied(ProviderError):
    """The key has no permission."""

    hint = "the account has no right to this model"


class QuotaExceeded(PermissionDenied):
    """No credit left, or a limit on spending is reached."""

    hint = "add credit to the provider's account or raise its spending limit, or name a second provider to fall back on"


class NotFound(ProviderError):
    """No such model, or no such address."""

    hint = "check the model's name (`penstock models`) and the base URL"


class InvalidRequest(ProviderError):
    """The provider refuses the request."""

    hint = "the message names what it refuses; `penstock convert` shows the body that is sent"


class TooLarge(InvalidRequest):
    """The request exceeds a limit of the model."""

    hint = "shorten the conversation, or set context_management=True"


class RateLimited(ProviderError):
    """Too many requests or tokens at the moment."""

    hint = "wait as long as it says, or name a second provider to fall back on"


class Overloaded(ProviderError):
    """The provider is busy, or its circuit breaker is open."""

    hint = "try again in a while, or name a second provider to fall back on"


class ServerError(ProviderError):
    """The provider failed."""

    hint = "the fault is the provider's; its request id is what its support will ask for"


class TimedOut(ProviderError):
    """The provider did not answer in time."""

    hint = "the limits are `timeouts` of the request options"


class NetworkError(ProviderError):
    """The provider was not reached, or the connection broke."""

    hint = "check the address, the proxy and the certificates: `penstock doctor` tries them"


class McpServerError(NetworkError):
    """An MCP server did not start, did not answer in time, or broke off during a call. `server` is its name."""

    hint = "run the server's command, or open its address, by hand: its own output says more"

    def __init__(self, server: str, fault: Fault) -> None:
        super().__init__(fault)
        self.server = server


class Filtered(ProviderError):
    """The provider's policy forbids the prompt or the answer."""


class Cancelled(ProviderError):
    """The request was cancelled."""


class BadAnswer(ProviderError):
    """The answer was cut off or cannot be read."""

    hint = "the answer broke off or was no answer; something between here and the provider may have changed it"


KINDS: dict[str, type[ProviderError]] = {
    "auth": AuthError, "permission": PermissionDenied, "quota": QuotaExceeded, "not-found": NotFound,
    "invalid": InvalidRequest,
    "too-large": TooLarge, "rate-limit": RateLimited, "overloaded": Overloaded, "server": ServerError,
    "timeout": TimedOut, "network": NetworkError, "filter": Filtered, "cancelled": Cancelled,
    "truncated": BadAnswer, "malformed": BadAnswer, "grammar": BadAnswer, "other": ProviderError,
}  # fmt: skip


def provider_error(fault: Fault, **known: Any) -> ProviderError:
    """Returns the exception for a fault, by its kind. `known` are further arguments of `ProviderError`."""
    return KINDS[fault.kind](fault, **known)


class GrammarError(PenstockError):
    """Events came in an order that the grammar forbids."""


def explain(error: BaseException) -> str:
    """Returns all that is known about an error as text, with its causes and earlier attempts.

    Examples:
        >>> from penstock.events import Fault
        >>> print(explain(RateLimited(Fault("rate-limit", "slow down", 429, retry_after=2.0), provider="openai")))
        RateLimited: openai: rate-limit (429): slow down
          provider:    openai
          kind:        rate-limit
          status:      429
          message:     slow down
          retry after: 2 s
          hint:        wait as long as it says, or name a second provider to fall back on
    """
    return "\n".join(_explain_lines(error, set()))


def _explain_lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    yield f"{type(error).__name__}: {redact(str(error)) or 'no message'}"
    if isinstance(error, StreamFault):
        yield from _fields(error)
    if isinstance(error, ProviderError):
        yield from _provider_details(error)
        for number, before in enumerate(error.attempts, 1):
            if id(before) not in seen:
                yield from _indent(f"try {number}, before this one:", _explain_lines(before, seen))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and id(cause) not in seen:
        yield from _indent("caused by:", _explain_lines(cause, seen))


def _fields(error: StreamFault) -> Iterator[str]:
    fault = error.fault
    rows = {
        "provider": getattr(error, "provider", ""), "model": getattr(error, "model", ""), "kind": fault.kind,
        "status": fault.status, "code": fault.code, "message": fault.message, "request id": fault.request_id,
        "retry after": None if fault.retry_after is None else f"{fault.retry_after:g} s",
    }  # fmt: skip
    for name, value in rows.items():
        if value not in {None, ""}:
            yield f"  {name + ':':<13}{redact(str(value))}"


def _provider_details(error: ProviderError) -> Iterator[str]:
    if error.headers:
        shown = redact_headers(error.headers)
        yield from _indent("headers:", (f"{name}: {value}" for name, value in shown.items()))
    if error.body:
        yield from _indent("body:", redact(error.body).splitlines())
    if error.hint:
        yield f"  {'hint:':<13}{error.hint}"


def _indent(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"  {title}"
    yield from (f"    {line}" for line in lines)
