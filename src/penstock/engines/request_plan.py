"""A request and a target → a job: operation, address, body, headers, all from the provider's row.

Leans on `penstock.messages` for the body and on `penstock.providers` for the rest. Signs nothing, sends nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock.diagnostics import Diagnostic
from penstock.engines import emulation
from penstock.engines.credentials import Signing
from penstock.engines.drafts import Drafts, sort_of
from penstock.engines.emulation import REFUSED
from penstock.engines.interface import Job
from penstock.engines.options import merged_headers
from penstock.errors import InputError, provider_error
from penstock.events import Fault
from penstock.fetch import Limits, fetch_files
from penstock.messages import ConvertOptions, Profile, convert_request, profile_of
from penstock.messages.convert import state_keys
from penstock.messages.request_codecs import quirks_type
from penstock.providers.address import endpoint_url, fill_template
from penstock.providers.models import model as facts_of
from penstock.request_profile import FileSupport, IdentifierRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engines.config import Account
    from penstock.engines.model_resolution import Target
    from penstock.engines.options import RequestOptions
    from penstock.engines.retries import Watch
    from penstock.errors import ProviderError
    from penstock.providers.registry import Endpoint, Provider
    from penstock.request import Request

_SHAPES: dict[str, Any] = {"ids": IdentifierRule, "names": IdentifierRule, "holding": FileSupport}
# where an operation goes whose own place a provider does not have; the canonical request fits all of them
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "chat": ("responses",), "responses": ("chat",), "completions": ("chat", "responses"), "fim": ("completions",),
}  # fmt: skip
ANY_JSON = "loss-any-json"
# options that mean nothing to a request that nobody has answered yet; a renamed model has drafts of its own
_NEUTRAL = frozenset({"store", "tenant", "renamed"})
ADDED = ("stream_options",)  # fields that nobody asked for, and that can be done without


class Plan(msgspec.Struct, kw_only=True):
    """What is the same for all requests for a model by an operation: `job` is copied for each of them.

    `why` the operation is another, where it is. `given` is what the row tells the converter. Who asks, and by which
    engine, is filled in by the router when it first needs to know.
    """

    job: Job
    why: str = ""
    given: ConvertOptions = {}
    sign: Signing | None = None
    wished: tuple[str, str] | None = None
    drafts: Drafts = msgspec.field(default_factory=Drafts)


def place(target: Target, operation: str) -> tuple[str, Endpoint, str]:
    """The operation that is asked for at a provider, its endpoint, and why it is another where it is."""
    row, model = target.provider, target.model
    why = ""
    if operation == "chat" and row.only_responses(model) and row.endpoint("responses", model):
        operation, why = "responses", f"{model} is only to be had by Responses"
    found = row.endpoint(operation, model)
    if found is None:
        for other in ELSEWHERE.get(operation, ()):
            found = row.endpoint(other, model)
            if found is not None:
                return other, found, f"{row.name} has no {operation}"
        known_here = ", ".join(row.endpoints) or "nothing"
        fault = Fault("not-found", f"{row.name} has no {operation}; it has: {known_here}", code="no-operation")
        raise provider_error(fault, provider=row.name, model=model)
    return operation, found, why


def plan(
    target: Target, operation: str, *, options: RequestOptions, account: Account, env: Mapping[str, str], stream: bool
) -> Plan:
    """How a model is asked."""
    row, model = target.provider, target.model
    operation, endpoint, why = place(target, operation)
    job = outline(target, operation, endpoint, options=options, account=account, env=env, stream=stream)
    if row.engine != "native":
        return Plan(job=job, why=why)
    facts = facts_of(row, model)
    given: ConvertOptions = {
        "max_output": facts.max_output or None, "max_input": facts.max_input or facts.context or None,
        "profile": profile(row, endpoint.protocol), "thinking": facts.thinking,
    }  # fmt: skip
    return Plan(job=job, why=why, given=given)


def prepare(request: Request, plan: Plan, *, source: str, convert: ConvertOptions) -> Job:
    """The job for a turn."""
    job = replace(plan.job)
    row = job.provider
    if row.engine != "native":
        job.request = replace(request, model=job.model)
        return job
    usage = True if request.stream and row.stream_options else None
    asked = job.request = replace(request, model=job.model, usage=usage)
    renamed = request.model != job.model and not request.model.endswith(f"/{job.model}")
    if renamed:
        convert = {**convert, "renamed": True}
    sort = sort_of(request, source) if convert.keys() <= _NEUTRAL else None
    if sort is not None and renamed:
        sort = b"renamed " + sort
    if sort is None or not plan.drafts.fill(sort, request, job):
        _converted(job, request, asked, plan, source, convert)
        if sort is not None:
            plan.drafts.learn(sort, request, job)
    return job


def pass_headers(job: Job, headers: Mapping[str, str]) -> None:
    """Add the headers of the client that the provider's row passes on. Headers of the configuration win."""
    passed = {name: headers[name] for name in job.provider.passes if name in headers}
    if passed:
        job.headers = merged_headers(passed, job.headers)
        job.letters = {}  # the plan's are for requests without these headers


def _converted(job: Job, request: Request, asked: Request, plan: Plan, source: str, convert: ConvertOptions) -> None:
    """Fill in the body that says what is asked, and what could not be said in it."""
    row, endpoint = job.provider, job.endpoint
    given: ConvertOptions = {**plan.given, **convert, "profile": plan.given.get("profile"), "strict": False}
    made = convert_request(asked, source, endpoint.protocol, **given)
    found = made.diagnostics
    worded = bool(found) and any(row.code == ANY_JSON for row in found)
    if worded:
        made = convert_request(emulation.worded(asked), source, endpoint.protocol, **given)
    body, dropped = trimmed(made.body, row, endpoint)
    job.body = over(over(body, job.body), job.options.extra_body)
    job.diagnostics, job.cleared = [*made.diagnostics, *dropped], made.cleared
    job.shaping = made.restore.stages()
    if job.diagnostics or worded:
        strict = convert.get("strict", False)
        emulation.fill(job, request, ["any-json"] if worded else (), strict=strict, client=source)


def outline(
    target: Target, operation: str, endpoint: Endpoint, *, options: RequestOptions, account: Account,
    env: Mapping[str, str], stream: bool = False,
) -> Job:  # fmt: skip
    """A job without its body but for what is always in it: where it goes, and what its headers say."""
    row, model = target.provider, target.model
    at = {"settings": account.settings, "env": env}
    base = "" if account.base_url == row.base_url else account.base_url
    address = endpoint_url(row, endpoint, model, stream=stream, base_url=base, **at)
    fixed = {
        name: fill_template(row, value, model, **at) for name, value in {**row.headers, **endpoint.headers}.items()
    }
    return Job(
        provider=row, endpoint=endpoint, operation=operation, model=model, url=address, stream=stream,
        protocol=endpoint.answer or endpoint.protocol, headers=merged_headers(fixed, options.headers), options=options,
        body=_filled(row, endpoint.body, model, account, env), settings=account.settings,
        base_url=fill_template(row, base or endpoint.base_url or row.base_url, model, **at).rstrip("/"),
    )  # fmt: skip


def trimmed(body: dict[str, Any], row: Provider, endpoint: Endpoint) -> tuple[dict[str, Any], list[Diagnostic]]:
    """The body less what has no place there; what the provider would refuse is told of."""
    if not row.refuses and not endpoint.drop:
        return body, []
    refused = [name for name in row.refuses if name in body]
    gone = {*endpoint.drop, *refused}
    where = row.name
    told = [
        Diagnostic(REFUSED, f"{name} is left out: {where} answers it with an error", where, name=name)
        for name in refused
    ]
    return ({name: value for name, value in body.items() if name not in gone} if gone else body), told


def relieved(job: Job, error: ProviderError) -> str:
    """Take a field of our own adding out of the body, if it is what was refused; gives its name."""
    said = f"{error.message} {error.body}"
    found = next((name for name in ADDED if name in job.body and name in said), "")
    if found:
        job.body = {name: value for name, value in job.body.items() if name != found}
    return found


def over(body: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """One body over another, objects merged."""
    if not more:
        return body
    made = dict(body)
    for name, value in more.items():
        below = made.get(name)
        made[name] = over(below, value) if isinstance(value, dict) and isinstance(below, dict) else value  # pyright: ignore[reportUnknownArgumentType]
    return made


def _filled(
    row: Provider, fields: Mapping[str, Any], model: str, account: Account, env: Mapping[str, str]
) -> dict[str, Any]:
    return {
        name: fill_template(row, value, model, settings=account.settings, env=env) if isinstance(value, str) else value
        for name, value in fields.items()
    }


# ── a row's demands ───────────────────────────────────────────────────────────────────────────────

_profiles: dict[tuple[str, str, str], Profile] = {}


def profile(row: Provider, protocol: str) -> Profile:
    """What a provider demands of a request in a protocol."""
    key = (row.name, row.base_url, protocol)
    found = _profiles.get(key)
    if found is None:
        if len(_profiles) > 1000:  # noqa: PLR2004 — providers of one's own may come and go
            _profiles.clear()
        found = _profiles[key] = _profile(row, protocol)
    return found


def _profile(row: Provider, protocol: str) -> Profile:
    base = profile_of(protocol)
    try:
        said = {name: msgspec.convert(value, _SHAPES.get(name, Any)) for name, value in row.profile.items()}
        shape = quirks_type(protocol)
        own = row.quirks.get(protocol)
        quirks = msgspec.convert(own, shape) if own and shape is not None else base.quirks
    except msgspec.ValidationError as error:
        raise InputError(f"provider {row.name!r}: {error}") from None
    return replace(base, **{**said, "provider": row.name, "options": row.names, "quirks": quirks})


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """`run` does what takes long for a large request, such as in a thread. `files` fetches files given by address."""

    request: Request
    operation: str
    source: str
    engine: str
    options: RequestOptions | None
    convert: ConvertOptions
    watch: Watch | None
    run: Run | None
    files: RequestFiles | None

    async def prepare(self, request: Request, plan: Plan, convert: ConvertOptions) -> Job:
        """The job of a try, with the diagnostics of fetched files."""
        if self.run is None:
            job = prepare(request, plan, source=self.source, convert=convert)
        else:
            job = await self.run(lambda: prepare(request, plan, source=self.source, convert=convert))
        if self.files is not None:
            self.files.report(job)
        return job


When: TypeAlias = Literal["needed", "all"]


class RequestFiles:
    """The files of one request. `when`: for targets that take no addresses, or for all."""

    def __init__(self, limits: Limits, when: When = "needed") -> None:
        self._limits, self._when = limits, when
        self._filled: Request | None = None
        self._found: list[Diagnostic] = []
        self._used = False  # whether the last target got the files

    async def filled(self, request: Request, plan: Plan) -> Request:
        """The request as a target gets it."""
        profile = plan.given.get("profile")
        self._used = self._when == "all" or (profile is not None and not profile.addresses)
        if not self._used:
            return request
        if self._filled is None:
            self._filled, notes = await fetch_files(request, limits=self._limits)
            self._found = list(notes)
        return self._filled

    def report(self, job: Job) -> None:
        """Add what was found while fetching to a job."""
        if self._used and self._found:
            job.diagnostics = [*job.diagnostics, *self._found]


Run: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Does some work, such as in a thread, and gives what it gives."""


async def load_state(request: Request, source: str, convert: ConvertOptions, run: Run | None = None) -> ConvertOptions:
    """The options with the rows that were found (`state`) in place of the store. Nothing to look up costs nothing."""
    store = convert.get("store")
    if store is None:
        return convert
    options = convert.copy()
    del options["store"]
    if run is None:
        keys = state_keys(request, source, **options)
    else:
        keys = await run(lambda: state_keys(request, source, **options))
    if keys:
        tenant = options.get("tenant", "")
        aget = getattr(store, "aget", None)
        options["state"] = store.get(tenant, keys) if aget is None else await aget(tenant, keys)
    return options
