"""Settings in the form that the model and the target take: output limit, sampling, reasoning, provider options.

Without an output limit none is sent, because providers count it against quotas and reserve credit for it. Only if the
target's protocol requires one, half of the model's maximum is sent, with a diagnostic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from penstock._lazy_patterns import lazy_pattern
from penstock._providers.models import default_limit
from penstock._request_writer import MIN_ANSWER_TOKENS, budget_for_effort, budget_within_limit, effort_for_budget

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock import request as rq
    from penstock._diagnostics import Diagnostic, Diagnostics
    from penstock._lenient_fields import Object
    from penstock._providers.thinking import Thinking


def limit_output(
    request: rq.Request,
    notes: Diagnostics,
    *,
    maximum: int | None = None,
    minimum: int = 0,
    inside: bool = False,
    required: bool = False,
) -> rq.Request:
    """Returns the request with an output limit. `inside`: a reasoning budget is part of it and must leave room."""
    requested = request.settings
    wanted_limit = requested.max_output
    if wanted_limit is None and required and maximum:
        wanted_limit = default_limit(maximum)
    if wanted_limit is None:
        return request
    budget = requested.budget if inside else None
    limit = max(wanted_limit, minimum, budget + MIN_ANSWER_TOKENS if budget and budget >= wanted_limit else 0)
    if maximum:
        limit = min(limit, max(maximum, minimum))
    if budget and budget >= limit:
        notes.add("reasoning-budget", f"a budget of {budget} reasoning tokens is more than the model can put out")
        requested = replace(requested, budget=max(limit - MIN_ANSWER_TOKENS, 0))
    _report_limit(notes, requested.max_output, limit, maximum)
    fitted = replace(requested, max_output=limit)
    return request if fitted == request.settings else replace(request, settings=fitted)


def _report_limit(notes: Diagnostics, requested: int | None, limit: int, maximum: int | None) -> None:
    if requested is None:
        why = f"an output limit is required by this API and was not given; using {limit} of the model's {maximum}"
        notes.add("output-limit", why)
    elif requested != limit:
        notes.add("output-limit", f"an output limit of {requested} is sent as {limit}")


# The sampling settings, and the values that equal their default.
DEFAULTS: dict[str, tuple[float, ...]] = {
    "temperature": (1,),
    "top_p": (1,),
    "top_k": (),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logprobs": (False,),
    "top_logprobs": (0,),
}


def fit_sampling(request: rq.Request, facts: Thinking, notes: Diagnostics) -> rq.Request:
    """Returns the request without sampling settings that its model refuses. Reasoning settings are fitted before."""
    settings = request.settings
    names, why = _refused_settings(settings, facts)
    dropped = [name for name in names if getattr(settings, name) is not None]
    if not dropped:
        return request
    for name in dropped:
        if getattr(settings, name) not in DEFAULTS[name]:
            notes.add(f"loss-{name}", f"{request.model or 'the model'} takes no {name}{why}: it is left out", name)
    return replace(request, settings=replace(settings, **dict.fromkeys(dropped)))


def _refused_settings(settings: rq.Settings, facts: Thinking) -> tuple[tuple[str, ...], str]:
    """Returns the settings that the model refuses, and when it does so."""
    like = f" (as its nearest relative {facts.relative})" if facts.relative else ""
    if facts.sampling == "never":
        return tuple(DEFAULTS), like
    if facts.sampling == "unthinking" and settings.effort != "none" and (settings.effort or facts.on):
        return tuple(DEFAULTS), f" while it reasons{like}"
    if facts.sampling == "one" and settings.temperature is not None and settings.top_p is not None:
        return ("top_p",), f" beside a temperature{like}"
    return (), ""


LOSS, CHANGED, REFUSED = "loss-", "changed-", "refused-field"  # how codes begin, and one
SETTING = "loss-setting"
LIMIT = "output-limit"
ALTERED = {LIMIT: "max-output", "reasoning-budget": "budget"}  # settings that a limit has changed, by code
# Fields of bodies that are refused, and the names of their settings.
FIELDS = {
    "n": "choices",
    "parallel_tool_calls": "parallel_calls",
    "service_tier": "tier",
    "stop_sequences": "stop",
    "stopSequences": "stop",
}
# Values that equal the default: dropping them loses nothing.
DEFAULT_VALUES: dict[str, tuple[object, ...]] = {
    "choices": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "parallel_calls": (True,),
    "tier": ("auto", "default"),
}


def lost_settings(rows: Iterable[Diagnostic], requested: rq.Settings) -> tuple[str, ...]:
    """Returns the names of settings that were dropped or sent with another value."""
    found: dict[str, None] = {}
    for row in rows:
        added = row.code == LIMIT and requested.max_output is None
        altered = row.code in ALTERED and not added
        if altered or row.code.startswith((LOSS, CHANGED)) or row.code == REFUSED:
            name = ALTERED.get(row.code) or FIELDS.get(row.name, row.name)
            name = name or row.code.removeprefix(LOSS).removeprefix(CHANGED)
            if getattr(requested, name, None) not in DEFAULT_VALUES.get(name, ()):
                found[name] = None
    return tuple(found)


# Settings that `strict` refuses to drop, because they change the answer.
STRICT = """allowed any-json budget choice choices effort frequency_penalty logprobs parallel_calls prefill
    presence_penalty schema seed stop temperature top_k top-k top_logprobs top_p""".split()


def changed_meaning(rows: Iterable[Diagnostic], requested: rq.Settings) -> tuple[str, ...]:
    """Returns the names of dropped settings that change the result. A value in another form does not count."""
    dropped = [row for row in rows if not row.code.startswith(CHANGED) and row.code not in ALTERED]
    names = tuple(name for name in lost_settings(dropped, requested) if name in STRICT)
    loses_format = any(row.code == SETTING and row.name == "format" for row in dropped)  # not only its schema's name
    return (*names, "format") if loses_format else names


_WORD_BOUNDARY = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_CAMEL_CASE = lazy_pattern(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+")
# Objects whose keys are chosen by the caller.
_CALLER_NAMED = frozenset({"metadata", "schema", "input_schema", "parameters", "logit_bias", "headers"})


def rename_options(options: Object, notes: Diagnostics) -> Object:
    """Returns the options with names in snake_case. Every name that changes is a diagnostic."""
    changed: list[str] = []
    renamed = _to_snake_case(options, changed)
    if changed:
        names = ", ".join(changed)
        notes.add("renamed-options", f"options in the AI SDK's spelling are sent in the provider's: {names}", "options")
    return renamed


def _to_snake_case(fields: Object, changed: list[str]) -> Object:
    renamed: Object = {}
    for key, value in fields.items():
        name = _WORD_BOUNDARY.sub("_", key).lower() if _CAMEL_CASE.fullmatch(key) else key
        if name != key and name in fields:  # the provider's own spelling counts
            changed.append(f"{key} not at all, beside {name}")
            continue
        if name != key:
            changed.append(f"{key} as {name}")
        renamed[name] = value if name in _CALLER_NAMED else _rename_inside(value, changed)
    return renamed


def _rename_inside(value: Any, changed: list[str]) -> Any:
    if isinstance(value, dict):
        return _to_snake_case(cast("Object", value), changed)
    if isinstance(value, list):
        return [_rename_inside(one, changed) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value


DEFAULT_EFFORT = "medium"  # the effort if thinking is requested without one
_FORCED_CHOICES = frozenset({"required", "tool"})  # modes in which a tool must be called
_LEAST_TOP_P = 0.95  # the least that is taken beside thinking


def fit_reasoning(
    request: rq.Request,
    thinking: Thinking,
    forms: Collection[str],
    notes: Diagnostics,
    *,
    inside: bool = False,
    unthinking: bool = False,
) -> rq.Request:
    """Returns the request with reasoning settings in a form of its model. `forms`: those that the target can write.

    `inside`: a budget counts against the output limit and must leave room for the answer. `unthinking`: the client
    gives an effort for its answer, in the target's protocol, and does not ask for thinking.
    """
    requested = request.settings
    if not requested.effort and requested.budget is None and not requested.thoughts:
        return request
    fit = _ReasoningFit(requested, thinking, notes, request.model, inside=inside)
    settings = fit.fit_answer_effort() if unthinking else fit.fit_settings(forms)
    if settings is not None and thinking.exclusive and not unthinking:
        settings = fit.drop_exclusive(settings, request.choice)
    if settings is None or settings == requested:
        return request
    if thinking.relative:
        notes.add(
            "thinking-relative",
            f"how {request.model} takes reasoning settings is not known; they are sent as for its nearest relative "
            f"{thinking.relative} ({thinking.form})",
        )
    return replace(request, settings=settings)


class _ReasoningFit:
    """Fits the reasoning settings of one request to the facts of its model."""

    def __init__(
        self, requested: rq.Settings, thinking: Thinking, notes: Diagnostics, model: str, *, inside: bool
    ) -> None:
        self._requested, self._thinking, self._notes = requested, thinking, notes
        self._model, self._budget_inside = model or "the model", inside
        self._disabled = requested.budget == 0 or (requested.effort == "none" and not requested.budget)

    def fit_settings(self, forms: Collection[str]) -> rq.Settings | None:
        """Returns the settings in a form that model and target share; None if there is none."""
        facts = self._thinking
        form = next((one for one in (facts.form, facts.also) if one in forms), "")
        if not form:
            return None
        if form == "none":
            return self._drop_settings()
        if facts.also == "budget" in forms and self._requested.budget and not self._requested.effort:
            form = "budget"
        if not self._requested.effort and self._requested.budget is None:  # nothing but a wish to see the thoughts
            return self._fit_wish_to_show(form)
        if self._disabled:
            return self._fit_disabled(form)
        return {"budget": self._fit_budget, "switch": self._fit_enabled}.get(form, self._fit_effort)(form)

    def fit_answer_effort(self) -> rq.Settings:
        """Returns an effort for the answer of a model that does not think."""
        requested, facts = self._requested, self._thinking
        if not facts.efforts:
            self._notes.add("loss-effort", f"{self._model} takes no effort without thinking", "effort")
            return self._with_reasoning(facts.form)
        return self._with_reasoning(facts.form, self._nearest_effort(requested.effort))

    def drop_exclusive(self, settings: rq.Settings, choice: rq.ToolChoice | None) -> rq.Settings:
        """Drops settings that the model refuses while it thinks. A forced tool call has priority over thinking.

        https://platform.claude.com/docs/en/build-with-claude/extended-thinking#feature-compatibility
        """
        if settings.budget == 0 or not (settings.effort or settings.budget or settings.thoughts):
            return settings
        if choice is not None and choice.mode in _FORCED_CHOICES and self._thinking.off:
            name = next(name for name in ("effort", "budget", "thoughts") if getattr(self._requested, name))
            why = f"{self._model} does not think where a tool must be called: {name} is left out"
            self._notes.add(f"loss-{name}", why, name)
            return replace(settings, effort="", budget=0, thoughts=None)
        refused = {
            "temperature": settings.temperature not in (None, 1),
            "top_k": settings.top_k is not None,
            "top_p": settings.top_p is not None and settings.top_p < _LEAST_TOP_P,
        }
        dropped = [name for name, wrong in refused.items() if wrong]
        for name in dropped:
            self._notes.add(f"loss-{name}", f"{self._model} takes no {name} while it thinks: it is left out", name)
        return replace(settings, **dict.fromkeys(dropped)) if dropped else settings

    def _with_reasoning(self, form: str, effort: str = "", budget: int | None = None, **more: Any) -> rq.Settings:
        return replace(self._requested, effort=effort, budget=budget, thinking=form, **more)

    # ── forms ─────────────────────────────────────────────────────────────────────────────────────

    def _drop_settings(self) -> rq.Settings:
        requested, facts = self._requested, self._thinking
        if not self._disabled or facts.on:
            why = "it always thinks as it likes" if facts.on else "it does not think"
            for name in ("effort", "budget"):
                if getattr(requested, name) not in (None, ""):
                    self._notes.add(f"loss-{name}", f"{self._model} takes no reasoning settings: {why}", name)
        thoughts = requested.thoughts
        if thoughts and not facts.on:
            self._notes.add("loss-thoughts", f"{self._model} has no reasoning to show", "thoughts")
            thoughts = None
        return self._with_reasoning("none", thoughts=thoughts)

    def _fit_wish_to_show(self, form: str) -> rq.Settings:
        """Handles thinking that is requested without an amount: some models need a number."""
        if form != "budget" or self._thinking.on:
            return self._with_reasoning(form)
        return self._fit_budget(form, DEFAULT_EFFORT, "thoughts")

    def _fit_disabled(self, form: str) -> rq.Settings:
        facts = self._thinking
        if facts.off:
            if form in ("effort", "level"):
                return self._with_reasoning(form, "none" if "none" in facts.efforts else "")
            # Claude's effort also counts for the answer, so it is kept when thinking is switched off.
            effort = self._requested.effort
            beside = facts.exclusive and facts.efforts and effort not in ("", "none")
            return self._with_reasoning(form, self._nearest_effort(effort) if beside else "", budget=0)
        name = "effort" if self._requested.effort else "budget"
        if form == "budget":
            lowest = facts.least or 1
            self._report_change(
                name, f"thinking of {self._model} cannot be switched off; it gets the smallest budget, {lowest}"
            )
            return self._with_reasoning(form, budget=lowest)
        effort = next((effort for effort in facts.efforts if effort != "none"), "low")
        self._report_change(
            name, f"thinking of {self._model} cannot be switched off; it gets the lowest effort, {effort}"
        )
        return self._with_reasoning(form, effort)

    def _fit_enabled(self, form: str) -> rq.Settings:
        requested = self._requested
        name = "effort" if requested.effort else "budget"
        self._report_change(
            name, f"thinking of {self._model} is on or off: {name} {getattr(requested, name)} is sent as on"
        )
        return self._with_reasoning(form, thoughts=True)

    def _fit_effort(self, form: str) -> rq.Settings:
        requested = self._requested
        effort = requested.effort or effort_for_budget(requested.budget or 0)
        if requested.budget is not None:
            sent = "" if requested.effort else f" and is sent as the effort {effort}"
            self._report_change(
                "budget", f"{self._model} takes an effort: a budget of {requested.budget} tokens is left out{sent}"
            )
        return self._with_reasoning(form, self._nearest_effort(effort))

    def _nearest_effort(self, effort: str) -> str:
        """Returns the nearest effort that the model takes."""
        known = self._thinking.efforts
        if not known or effort in known:
            return effort
        nearest = min(known, key=lambda one: (one == "none", abs(budget_for_effort(one) - budget_for_effort(effort))))
        if effort in self._thinking.raised:
            nearest = next((one for one in known if budget_for_effort(one) > budget_for_effort(effort)), nearest)
        self._report_change("effort", f"{self._model} takes no effort {effort}; the nearest is sent: {nearest}")
        return nearest

    def _fit_budget(self, form: str, effort: str = "", name: str = "effort") -> rq.Settings:
        requested, facts = self._requested, self._thinking
        effort = effort or requested.effort
        beside = ""
        if requested.budget is not None:
            budget = requested.budget
            if requested.effort and facts.efforts:
                beside = self._nearest_effort(effort)
            elif requested.effort:
                self._report_change(
                    "effort", f"{self._model} takes a budget: the effort {effort} beside it is left out"
                )
        else:
            limit = requested.max_output if self._budget_inside else None
            budget = budget_within_limit(effort, limit, facts.least)
            if not budget:
                why = f"the output limit of {limit} leaves no room for a budget of reasoning tokens: {name} is left out"
                self._notes.add(f"loss-{name}", why, name)
                return self._with_reasoning(form, thoughts=None)
            budget = self._clamp_budget(budget)
            self._report_change(name, f"{self._model} takes a budget: the effort {effort} is sent as {budget} tokens")
        bounded = self._clamp_budget(budget)
        if bounded != budget:
            self._report_change(
                "budget", f"a budget of {budget} reasoning tokens is sent to {self._model} as {bounded}"
            )
        return self._with_reasoning(form, beside, budget=bounded)

    def _clamp_budget(self, budget: int) -> int:
        return max(min(budget, self._thinking.most or budget), self._thinking.least)

    def _report_change(self, name: str, why: str) -> None:
        self._notes.add(f"changed-{name}", why, name)
