"""Builds the request for a provider: operation, URL, headers and body, from the provider's row.

`plan_request` computes what all requests to a model share, `build_request` adds the converted body. `PlanCache` keeps
plans, targets and options. `UrlFileFetcher` and `load_state` do the I/O that must come first: files given by URL, and
the stored state of earlier turns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._diagnostics import Diagnostic
from penstock._engines import emulation
from penstock._engines.auth import Secret
from penstock._engines.credentials import RequestSigner
from penstock._engines.engine_interface import UpstreamRequest
from penstock._engines.environ import EnvironmentChanges
from penstock._engines.model_resolution import Target, resolve_targets
from penstock._http.request_options import RequestOptions, merge_headers
from penstock._messages.convert import convert_unchecked, state_keys
from penstock._messages.options import ConvertOptions
from penstock._messages.request_codecs import profile_of, quirks_type
from penstock._providers.fim import write_suffix_into_prompt
from penstock._providers.models import model as facts_of
from penstock._providers.urls import base_url_of, endpoint_url, fill_template
from penstock._request_profile import FileSupport, IdentifierRule, Profile
from penstock.errors import InputError, ProviderError, provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    from penstock._engines.config import Account, Config
    from penstock._engines.failure_policy import RouteObserver
    from penstock._providers.registry import Endpoint, Provider
    from penstock.file_fetch import FetchLimits
    from penstock.request import Request

_SHAPES: dict[str, Any] = {"ids": IdentifierRule, "names": IdentifierRule, "holding": FileSupport}
# The operations to use if a provider lacks one. The canonical request fits all of them.
OTHER_OPERATIONS: dict[str, tuple[str, ...]] = {
    "chat": ("responses",),
    "responses": ("chat",),
    "completions": ("chat", "responses"),
    "fim": ("completions",),
}
ANY_JSON = "loss-any-json"
OPTIONAL_FIELDS = ("stream_options",)  # fields that penstock adds and a request can do without


class RequestPlan(msgspec.Struct, kw_only=True):
    """What all requests for a model and operation share. `template` is copied for each request.

    `operation_reason` says why another operation than the requested one is used, if so. `convert` holds the options
    that the provider's row gives the converter. The router fills in `signer` and `engine_choice` when needed; for a
    provider with several keys `key_signers`: of each key, with the request heads that it signs.
    """

    template: UpstreamRequest
    operation_reason: str = ""
    convert: ConvertOptions = {}
    signer: RequestSigner | None = None
    key_signers: dict[Secret, tuple[RequestSigner, dict[Any, Any]]] = {}
    engine_choice: tuple[str, str] | None = None


def find_endpoint(target: Target, operation: str) -> tuple[str, Endpoint, str]:
    """Returns the operation to use at a provider, its endpoint, and why it is not the requested operation."""
    row, model = target.provider, target.model
    why = ""
    if operation == "chat" and row.only_responses(model) and row.endpoint("responses", model):
        operation, why = "responses", f"{model} is only to be had by Responses"
    found = row.endpoint(operation, model)
    if found is None:
        for other in OTHER_OPERATIONS.get(operation, ()):
            found = row.endpoint(other, model)
            if found is not None:
                return other, found, f"{row.name} has no {operation}"
        known_here = ", ".join(row.endpoints) or "nothing"
        fault = Fault("not-found", f"{row.name} has no {operation}; it has: {known_here}", code="no-operation")
        raise provider_error(fault, provider=row.name, model=model)
    return operation, found, why


def plan_request(
    target: Target, operation: str, *, options: RequestOptions, account: Account, env: Mapping[str, str], stream: bool
) -> RequestPlan:
    """Computes how to ask a model."""
    row, model = target.provider, target.model
    operation, endpoint, why = find_endpoint(target, operation)
    template = start_request(target, operation, endpoint, options=options, account=account, env=env, stream=stream)
    if row.engine != "native":
        return RequestPlan(template=template, operation_reason=why)
    facts = facts_of(row, model)
    convert: ConvertOptions = {
        "max_output": facts.max_output or None,
        "max_input": facts.max_input or facts.context or None,
        "profile": request_profile(row, endpoint.protocol),
        "thinking": facts.thinking,
    }
    return RequestPlan(template=template, operation_reason=why, convert=convert)


def build_request(request: Request, plan: RequestPlan, *, source: str, convert: ConvertOptions) -> UpstreamRequest:
    """Returns the request for a turn: a copy of the plan's template with the converted body."""
    upstream = replace(plan.template)
    row = upstream.provider
    if row.engine != "native":
        upstream.request = replace(request, model=upstream.model)
        return upstream
    usage = True if request.stream and row.stream_options else None
    upstream.request = replace(request, model=upstream.model, usage=usage)
    if request.model != upstream.model and not request.model.endswith(f"/{upstream.model}"):
        convert = {**convert, "renamed": True}
    _write_body(upstream, request, plan, source, convert)
    return upstream


def forward_headers(upstream: UpstreamRequest, headers: Mapping[str, str]) -> None:
    """Adds the client's headers that the provider's row lists in `passes`. Headers of the configuration win."""
    passed = {name: headers[name] for name in upstream.provider.passes if name in headers}
    if passed:
        upstream.headers = merge_headers(passed, upstream.headers)
        upstream.request_heads = {}  # the plan's cached heads lack these headers


def _write_body(
    upstream: UpstreamRequest, request: Request, plan: RequestPlan, source: str, convert: ConvertOptions
) -> None:
    """Fills in the converted body and the diagnostics of what the body cannot carry."""
    row, endpoint, canonical = upstream.provider, upstream.endpoint, upstream.request or request
    options: ConvertOptions = {**plan.convert, **convert, "profile": plan.convert.get("profile"), "strict": False}
    converted = convert_unchecked(canonical, source, endpoint.protocol, options)
    json_by_prompt = any(diagnostic.code == ANY_JSON for diagnostic in converted.diagnostics)
    if json_by_prompt:
        canonical = emulation.request_json_by_prompt(canonical)
        converted = convert_unchecked(canonical, source, endpoint.protocol, options)
    body, dropped = drop_refused_fields(converted.body, row, endpoint)
    if endpoint.protocol == "completions":
        body = write_suffix_into_prompt(body, row, upstream.model)
    upstream.body = merge_bodies(body, upstream.body, upstream.options.extra_body)
    upstream.diagnostics, upstream.cleared = [*converted.diagnostics, *dropped], converted.cleared
    upstream.transforms = converted.restore.stages()
    if upstream.diagnostics or json_by_prompt:
        strict = convert.get("strict", False)
        emulation.apply_emulations(
            upstream, request, ["any-json"] if json_by_prompt else (), strict=strict, client=source
        )


def start_request(
    target: Target,
    operation: str,
    endpoint: Endpoint,
    *,
    options: RequestOptions,
    account: Account,
    env: Mapping[str, str],
    stream: bool = False,
) -> UpstreamRequest:
    """Returns a request with its URL, its headers and the body fields that the provider's row fixes."""
    row, model = target.provider, target.model
    variables = {"settings": account.settings, "env": env}
    base = "" if account.base_url.rstrip("/") == row.base_url else account.base_url
    fixed_headers = {**row.headers, **endpoint.headers}
    headers = {name: fill_template(row, value, model, **variables) for name, value in fixed_headers.items()}
    fixed_body = {
        name: fill_template(row, value, model, **variables) if isinstance(value, str) else value
        for name, value in endpoint.body.items()
    }
    return UpstreamRequest(
        provider=row,
        endpoint=endpoint,
        operation=operation,
        model=model,
        stream=stream,
        options=options,
        url=endpoint_url(row, endpoint, model, stream=stream, base_url=base, **variables),
        protocol=endpoint.answer or endpoint.protocol,
        headers=merge_headers(headers, options.headers),
        body=fixed_body,
        settings=account.settings,
        base_url=fill_template(row, base_url_of(row, endpoint, base), model, **variables).rstrip("/"),
    )


def drop_refused_fields(
    body: dict[str, Any], row: Provider, endpoint: Endpoint
) -> tuple[dict[str, Any], list[Diagnostic]]:
    """Returns the body without the fields the provider does not take, and a diagnostic for each refused one."""
    if not row.refuses and not endpoint.drop:
        return body, []
    refused = [name for name in row.refuses if name in body]
    gone = {*endpoint.drop, *refused}
    diagnostics = [
        Diagnostic(emulation.REFUSED, f"{name} is left out: {row.name} answers it with an error", row.name, name=name)
        for name in refused
    ]
    return ({name: value for name, value in body.items() if name not in gone} if gone else body), diagnostics


def drop_optional_field(upstream: UpstreamRequest, error: ProviderError) -> str:
    """Removes the field that penstock added and the error complains about; returns its name, or nothing."""
    text = f"{error.message} {error.body}"
    field = next((name for name in OPTIONAL_FIELDS if name in upstream.body and name in text), "")
    if field:
        upstream.body = {name: value for name, value in upstream.body.items() if name != field}
    return field


def merge_bodies(body: dict[str, Any], *others: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `body` with the fields of the others over it, the last on top; objects are merged."""
    merged = body
    for fields in filter(None, others):
        merged = dict(merged)
        for name, value in fields.items():
            below = merged.get(name)
            merged[name] = merge_bodies(below, value) if isinstance(value, dict) and isinstance(below, dict) else value  # pyright: ignore[reportUnknownArgumentType]
    return merged


@lru_cache(1000)
def request_profile(row: Provider, protocol: str) -> Profile:
    """Returns what a provider requires of a request in a protocol."""
    base = profile_of(protocol)
    try:
        fields = {name: msgspec.convert(value, _SHAPES.get(name, Any)) for name, value in row.profile.items()}
        shape = quirks_type(protocol)
        configured = row.quirks.get(protocol)
        quirks = msgspec.convert(configured, shape) if configured and shape is not None else base.quirks
    except msgspec.ValidationError as error:
        raise InputError(f"provider {row.name!r}: {error}") from None
    return replace(base, **{**fields, "provider": row.name, "options": row.names, "quirks": quirks})


class RoutedRequest(NamedTuple):
    """A turn as the router gets it: the request, and what holds for each attempt.

    `run` does slow work elsewhere, such as in a thread. `files` fetches files that are given by URL.
    """

    request: Request
    operation: str
    source: str
    engine: str
    options: RequestOptions | None
    convert: ConvertOptions
    observer: RouteObserver | None
    run: RunInThread
    files: UrlFileFetcher | None

    async def build(self, request: Request, plan: RequestPlan, convert: ConvertOptions) -> UpstreamRequest:
        """Builds the request of one attempt, with the diagnostics of fetched files."""
        upstream: UpstreamRequest = await self.run(
            lambda: build_request(request, plan, source=self.source, convert=convert)
        )
        if self.files is not None:
            self.files.report(upstream)
        return upstream


FetchWhen: TypeAlias = Literal["needed", "all"]


class UrlFileFetcher:
    """Fetches the files of a request that are given by URL, for targets that need data. The caller switches it on.

    `when`: for targets that take no URLs, or for all. Files are fetched once for all attempts. A file that cannot be
    fetched stays a URL, with a diagnostic.
    """

    def __init__(self, limits: FetchLimits, when: FetchWhen = "needed") -> None:
        self._limits, self._when = limits, when
        self._fetched: Request | None = None
        self._diagnostics: list[Diagnostic] = []
        self._used = False  # whether the last target got the files

    async def fill(self, request: Request, plan: RequestPlan) -> Request:
        """Returns the request as the target gets it."""
        profile = plan.convert.get("profile")
        self._used = self._when == "all" or (profile is not None and not profile.addresses)
        if not self._used:
            return request
        if self._fetched is None:
            from penstock.file_fetch import fetch_files  # noqa: PLC0415 — few programs fetch files

            self._fetched, diagnostics = await fetch_files(request, limits=self._limits)
            self._diagnostics = list(diagnostics)
        return self._fetched

    def report(self, upstream: UpstreamRequest) -> None:
        """Adds the diagnostics of fetching."""
        if self._used and self._diagnostics:
            upstream.diagnostics = [*upstream.diagnostics, *self._diagnostics]


RunInThread: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function elsewhere, such as in a thread, and returns its result."""


async def run_inline(work: Callable[[], Any]) -> Any:
    """Runs a function here, as a `RunInThread`."""
    return work()


async def load_state(
    request: Request, source: str, convert: ConvertOptions, run: RunInThread = run_inline
) -> ConvertOptions:
    """Returns the options with the rows found (`state`) in place of the store, so that conversion does no I/O.

    A store with `aget` is awaited; any other store is called directly.
    """
    store = convert.get("store")
    if store is None:
        return convert
    options = convert.copy()
    del options["store"]
    keys = await run(lambda: state_keys(request, source, **options))
    if keys:
        tenant = options.get("tenant", "")
        aget = getattr(store, "aget", None)
        options["state"] = store.get(tenant, keys) if aget is None else await aget(tenant, keys)
    return options


_MAX_CACHED = 200  # model names, and plans
_TIMEOUT_SLACK = 0.05  # seconds that may pass before a first attempt without a shorter timeout


class PlanCache:
    """Targets, options and plans of one configuration. They are made anew when the environment has changed."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._config, self._env = config, env
        self._env_changes = EnvironmentChanges(env)
        self._default_options = RequestOptions.read(config.options)
        self._provider_options: dict[str, RequestOptions] = {}  # over the default options
        self._targets: dict[str, list[Target]] = {}
        self._plans: dict[tuple[str, str, str, bool], RequestPlan] = {}

    def targets(self, name: str) -> list[Target]:
        """Returns the targets of a model name, as `resolve_targets` does."""
        if self._env_changes.any():
            self._targets.clear()
            self._plans.clear()
        if name not in self._targets:
            targets = resolve_targets(name, self._config, self._env)
            if len(self._targets) >= _MAX_CACHED:
                self._targets.clear()
            self._targets[name] = targets
        return self._targets[name]

    def total_timeout(self, options: RequestOptions | None) -> float:
        """Returns the seconds that a call may take, all attempts together."""
        chosen = self._default_options if options is None else options.over(self._default_options)
        return chosen.timeouts.total

    def options(self, target: Target, options: RequestOptions | None, left: float) -> RequestOptions:
        """Returns the call's options over the provider's over the configuration's. `left` limits the total timeout."""
        name = target.provider.name
        merged = self._provider_options.get(name)
        if merged is None:
            configured = RequestOptions.read(self._config.account(name).options)
            merged = self._provider_options[name] = configured.over(self._default_options)
        if options is not None:
            merged = options.over(merged)
        if left < merged.timeouts.total - _TIMEOUT_SLACK:
            merged = replace(merged, timeouts=replace(merged.timeouts, total=max(left, 0.001)))
        return merged

    def plan(
        self, target: Target, operation: str, options: RequestOptions | None, left: float, *, stream: bool
    ) -> RequestPlan:
        """Returns the plan for a target. A plan with a call's own options, or with a shorter timeout, is not cached."""
        name = target.provider.name
        chosen = self.options(target, options, left)
        cacheable = chosen is self._provider_options.get(name)
        key = (name, target.model, operation, stream)
        found = self._plans.get(key) if cacheable else None
        if found is None:
            account = self._config.account(name)
            found = plan_request(target, operation, options=chosen, account=account, env=self._env, stream=stream)
            if cacheable:
                if len(self._plans) >= _MAX_CACHED:
                    self._plans.clear()
                self._plans[key] = found
        return found
