"""The output limit: the caller's, never under what the provider requires.

If the caller gives none, none is sent: providers count it against quotas and reserve credit for it. Only where the
target's protocol requires one, half the model's maximum is sent, and a diagnostic says so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from penstock.providers.models import default_limit
from penstock.request_writer import MIN_ANSWER_TOKENS, budget_for_effort, budget_within_limit, effort_for_budget

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from penstock import request as rq
    from penstock.diagnostics import Diagnostic, Diagnostics
    from penstock.lenient_fields import Object
    from penstock.providers.thinking import Thinking


def limit_output(
    request: rq.Request, notes: Diagnostics, *, maximum: int | None = None, minimum: int = 0, inside: bool = False,
    required: bool = False,
) -> rq.Request:  # fmt: skip
    """The request with its output limit. `inside`: a budget for reasoning is part of it and must leave room."""
    asked = request.settings
    wanted = asked.max_output
    if wanted is None and required and maximum:
        wanted = default_limit(maximum)
    if wanted is None:
        return request
    budget = asked.budget if inside else None
    limit = max(wanted, minimum, budget + MIN_ANSWER_TOKENS if budget and budget >= wanted else 0)
    if maximum:
        limit = min(limit, max(maximum, minimum))
    if budget and budget >= limit:
        notes.add("reasoning-budget", f"a budget of {budget} reasoning tokens is more than the model can put out")
        asked = replace(asked, budget=max(limit - MIN_ANSWER_TOKENS, 0))
    _report(notes, asked.max_output, limit, maximum)
    settled = replace(asked, max_output=limit)
    return request if settled == request.settings else replace(request, settings=settled)


def _report(notes: Diagnostics, asked: int | None, limit: int, maximum: int | None) -> None:
    if asked is None:
        said = f"an output limit is required by this API and was not given; using {limit} of the model's {maximum}"
        notes.add("output-limit", said)
    elif asked != limit:
        notes.add("output-limit", f"an output limit of {asked} is sent as {limit}")


# The settings, and the values that say no more than their absence.
DEFAULTS: dict[str, tuple[float, ...]] = {
    "temperature": (1,), "top_p": (1,), "top_k": (), "frequency_penalty": (0,), "presence_penalty": (0,),
    "logprobs": (False,), "top_logprobs": (0,),
}  # fmt: skip


def fit_sampling(request: rq.Request, facts: Thinking, notes: Diagnostics) -> rq.Request:
    """The request without sampling settings that its model refuses. Settings for reasoning are decided already."""
    settings = request.settings
    names, why = _refused(settings, facts)
    gone = [name for name in names if getattr(settings, name) is not None]
    if not gone:
        return request
    for name in gone:
        if getattr(settings, name) not in DEFAULTS[name]:
            notes.add(f"loss-{name}", f"{request.model or 'the model'} takes no {name}{why}: it is left out", name)
    return replace(request, settings=replace(settings, **dict.fromkeys(gone)))


def _refused(settings: rq.Settings, facts: Thinking) -> tuple[tuple[str, ...], str]:
    """Names of settings that the model refuses, and when it does."""
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
# Fields of bodies that are refused, by the names of the settings they say.
FIELDS = {
    "n": "choices", "parallel_tool_calls": "parallel_calls", "service_tier": "tier", "stop_sequences": "stop",
    "stopSequences": "stop",
}  # fmt: skip
# What a setting says that might as well not be said: leaving it out loses nothing.
PLAIN: dict[str, tuple[object, ...]] = {
    "choices": (1,), "logprobs": (False,), "top_logprobs": (0,), "frequency_penalty": (0,), "presence_penalty": (0,),
    "parallel_calls": (True,), "tier": ("auto", "default"),
}  # fmt: skip


def lost(rows: Iterable[Diagnostic], asked: rq.Settings) -> tuple[str, ...]:
    """Names of what was asked for and not carried, or carried with another value, each once."""
    found: dict[str, None] = {}
    for row in rows:
        altered = row.code in ALTERED and (row.code != LIMIT or asked.max_output is not None)  # not one that was added
        if altered or row.code.startswith((LOSS, CHANGED)) or row.code == REFUSED:
            name = ALTERED.get(row.code) or FIELDS.get(row.name, row.name)
            name = name or row.code.removeprefix(LOSS).removeprefix(CHANGED)
            if getattr(asked, name, None) not in PLAIN.get(name, ()):
                found[name] = None
    return tuple(found)


# What `strict` refuses to lose: without it the answer is another one, or says less than was asked for.
STRICT = frozenset({
    "allowed", "any-json", "budget", "choice", "choices", "effort", "frequency_penalty", "logprobs", "parallel_calls",
    "prefill", "presence_penalty", "schema", "seed", "stop", "temperature", "top_k", "top-k", "top_logprobs", "top_p",
})  # fmt: skip


def changed_meaning(rows: Iterable[Diagnostic], asked: rq.Settings) -> tuple[str, ...]:
    """Names of what was lost and changes the result. A value in another form, or the nearest one, is not among them."""
    gone = [row for row in rows if not row.code.startswith(CHANGED) and row.code not in ALTERED]
    names = tuple(name for name in lost(gone, asked) if name in STRICT)
    formless = any(row.code == SETTING and row.name == "format" for row in gone)  # not only the name of its schema
    return (*names, "format") if formless else names


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CAMEL = re.compile(r"[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)+")
# Objects with names of the caller's own inside.
_OPAQUE = frozenset({"metadata", "schema", "input_schema", "parameters", "logit_bias", "headers"})


def rename_options(options: Object, notes: Diagnostics) -> Object:
    """Returns the options with names in snake_case. Every name that changes is a diagnostic."""
    changed: list[str] = []
    made = _renamed(options, changed)
    if changed:
        notes.add(
            "renamed-options", f"options in the AI SDK's spelling are sent in the provider's: {', '.join(changed)}",
            "options",
        )  # fmt: skip
    return made


def _renamed(fields: Object, changed: list[str]) -> Object:
    made: Object = {}
    for key, value in fields.items():
        name = _HUMP.sub("_", key).lower() if _CAMEL.fullmatch(key) else key
        if name != key and name in fields:  # the provider's own spelling counts
            changed.append(f"{key} not at all, beside {name}")
            continue
        if name != key:
            changed.append(f"{key} as {name}")
        made[name] = value if name in _OPAQUE else _inside(value, changed)
    return made


def _inside(value: Any, changed: list[str]) -> Any:
    if isinstance(value, dict):
        return _renamed(cast("Object", value), changed)
    if isinstance(value, list):
        return [_inside(one, changed) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value


UNSAID = "medium"  # the effort of a wish to think that says no more
_FORCED = frozenset({"required", "tool"})  # modes in which a tool must be called
_TOP_P = 0.95  # the least that is taken beside thinking


def fit_reasoning(
    request: rq.Request, thinking: Thinking, forms: Collection[str], notes: Diagnostics, *, inside: bool = False,
    unthinking: bool = False,
) -> rq.Request:  # fmt: skip
    """The request with reasoning settings as its model takes them. `forms`: those that the target can write.

    `inside`: a budget counts against the output limit and must leave room for the answer. `unthinking`: the client
    gives an effort for its answer, in the target's protocol, and does not ask for thinking.
    """
    asked = request.settings
    if not asked.effort and asked.budget is None and not asked.thoughts:
        return request
    fit = _Fit(asked, thinking, notes, request.model, inside=inside)
    settings = fit.effort_alone() if unthinking else fit.settings(forms)
    if settings is not None and thinking.exclusive and not unthinking:
        settings = fit.exclusive(settings, request.choice)
    if settings is None or settings == asked:
        return request
    if thinking.relative:
        notes.add(
            "thinking-relative",
            f"how {request.model} takes reasoning settings is not known; they are sent as for its nearest relative "
            f"{thinking.relative} ({thinking.form})",
        )
    return replace(request, settings=settings)


class _Fit:
    """One request's settings, and the facts of its model."""

    def __init__(self, asked: rq.Settings, thinking: Thinking, notes: Diagnostics, model: str, *, inside: bool) -> None:
        self._asked, self._thinking, self._notes = asked, thinking, notes
        self._model, self._inside = model or "the model", inside
        self._off = asked.budget == 0 or (asked.effort == "none" and not asked.budget)

    def settings(self, forms: Collection[str]) -> rq.Settings | None:
        """The settings in a form that model and target have in common; None where there is none."""
        facts = self._thinking
        form = next((one for one in (facts.form, facts.also) if one in forms), "")
        if not form:
            return None
        if form == "none":
            return self._left_out()
        if facts.also == "budget" in forms and self._asked.budget and not self._asked.effort:
            form = "budget"
        if not self._asked.effort and self._asked.budget is None:  # nothing but a wish to see the thoughts
            return self._wished(form)
        if self._off:
            return self._switched_off(form)
        return {"budget": self._budget, "switch": self._switched_on}.get(form, self._word)(form)

    def effort_alone(self) -> rq.Settings:
        """An effort that says how much to answer, for a model that is not asked to think."""
        asked, facts = self._asked, self._thinking
        if not facts.efforts:
            self._notes.add("loss-effort", f"{self._model} takes no effort without thinking", "effort")
            return self._with_reasoning(facts.form)
        return self._with_reasoning(facts.form, self._nearest(asked.effort))

    def exclusive(self, settings: rq.Settings, choice: rq.ToolChoice | None) -> rq.Settings:
        """The settings of a model that refuses some of them while it thinks. A tool that must be called goes first.

        https://platform.claude.com/docs/en/build-with-claude/extended-thinking#feature-compatibility
        """
        if settings.budget == 0 or not (settings.effort or settings.budget or settings.thoughts):
            return settings
        if choice is not None and choice.mode in _FORCED and self._thinking.off:
            name = next(name for name in ("effort", "budget", "thoughts") if getattr(self._asked, name))
            why = f"{self._model} does not think where a tool must be called: {name} is left out"
            self._notes.add(f"loss-{name}", why, name)
            return replace(settings, effort="", budget=0, thoughts=None)
        refused = {
            "temperature": settings.temperature not in (None, 1), "top_k": settings.top_k is not None,
            "top_p": settings.top_p is not None and settings.top_p < _TOP_P,
        }  # fmt: skip
        gone = [name for name, wrong in refused.items() if wrong]
        for name in gone:
            self._notes.add(f"loss-{name}", f"{self._model} takes no {name} while it thinks: it is left out", name)
        return replace(settings, **dict.fromkeys(gone)) if gone else settings

    def _with_reasoning(self, form: str, effort: str = "", budget: int | None = None, **more: Any) -> rq.Settings:
        return replace(self._asked, effort=effort, budget=budget, thinking=form, **more)

    # ── forms ─────────────────────────────────────────────────────────────────────────────────────

    def _left_out(self) -> rq.Settings:
        asked, facts = self._asked, self._thinking
        if not self._off or facts.on:
            why = "it always thinks as it likes" if facts.on else "it does not think"
            for name in ("effort", "budget"):
                if getattr(asked, name) not in (None, ""):
                    self._notes.add(f"loss-{name}", f"{self._model} takes no reasoning settings: {why}", name)
        thoughts = asked.thoughts
        if thoughts and not facts.on:
            self._notes.add("loss-thoughts", f"{self._model} has no reasoning to show", "thoughts")
            thoughts = None
        return self._with_reasoning("none", thoughts=thoughts)

    def _wished(self, form: str) -> rq.Settings:
        """Thinking that is asked for without saying how much: some models need a number."""
        if form != "budget" or self._thinking.on:
            return self._with_reasoning(form)
        return self._budget(form, UNSAID, "thoughts")

    def _switched_off(self, form: str) -> rq.Settings:
        facts = self._thinking
        if facts.off:
            if form in ("effort", "level"):
                return self._with_reasoning(form, "none" if "none" in facts.efforts else "")
            # Claude's effort counts for the answer, too: it may stand beside thinking that is switched off.
            word = self._asked.effort
            beside = facts.exclusive and facts.efforts and word not in ("", "none")
            return self._with_reasoning(form, self._nearest(word) if beside else "", budget=0)
        name = "effort" if self._asked.effort else "budget"
        if form == "budget":
            lowest = facts.least or 1
            self._change(
                name, f"thinking of {self._model} cannot be switched off; it gets the smallest budget, {lowest}"
            )
            return self._with_reasoning(form, budget=lowest)
        word = next((word for word in facts.efforts if word != "none"), "low")
        self._change(name, f"thinking of {self._model} cannot be switched off; it gets the lowest effort, {word}")
        return self._with_reasoning(form, word)

    def _switched_on(self, form: str) -> rq.Settings:
        asked = self._asked
        name = "effort" if asked.effort else "budget"
        self._change(name, f"thinking of {self._model} is on or off: {name} {getattr(asked, name)} is sent as on")
        return self._with_reasoning(form, thoughts=True)

    def _word(self, form: str) -> rq.Settings:
        asked = self._asked
        word = asked.effort or effort_for_budget(asked.budget or 0)
        if asked.budget is not None:
            sent = "" if asked.effort else f" and is sent as the effort {word}"
            self._change(
                "budget", f"{self._model} takes an effort: a budget of {asked.budget} tokens is left out{sent}"
            )
        return self._with_reasoning(form, self._nearest(word))

    def _nearest(self, word: str) -> str:
        """The effort that the model takes in place of a word."""
        known = self._thinking.efforts
        if not known or word in known:
            return word
        nearest = min(known, key=lambda one: (one == "none", abs(budget_for_effort(one) - budget_for_effort(word))))
        if word in self._thinking.raised:
            nearest = next((one for one in known if budget_for_effort(one) > budget_for_effort(word)), nearest)
        self._change("effort", f"{self._model} takes no effort {word}; the nearest is sent: {nearest}")
        return nearest

    def _budget(self, form: str, effort: str = "", name: str = "effort") -> rq.Settings:
        asked, facts = self._asked, self._thinking
        effort = effort or asked.effort
        beside = ""
        if asked.budget is not None:
            budget = asked.budget
            if asked.effort and facts.efforts:
                beside = self._nearest(effort)
            elif asked.effort:
                self._change("effort", f"{self._model} takes a budget: the effort {effort} beside it is left out")
        else:
            limit = asked.max_output if self._inside else None
            budget = budget_within_limit(effort, limit, facts.least)
            if not budget:
                why = f"the output limit of {limit} leaves no room for a budget of reasoning tokens: {name} is left out"
                self._notes.add(f"loss-{name}", why, name)
                return self._with_reasoning(form, thoughts=None)
            budget = self._bounded(budget)
            self._change(name, f"{self._model} takes a budget: the effort {effort} is sent as {budget} tokens")
        bounded = self._bounded(budget)
        if bounded != budget:
            self._change("budget", f"a budget of {budget} reasoning tokens is sent to {self._model} as {bounded}")
        return self._with_reasoning(form, beside, budget=bounded)

    def _bounded(self, budget: int) -> int:
        return max(min(budget, self._thinking.most or budget), self._thinking.least)

    def _change(self, name: str, why: str) -> None:
        self._notes.add(f"changed-{name}", why, name)
