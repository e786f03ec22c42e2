"""Sampling settings that a model refuses: they are left out, with a diagnostic `loss-<setting>`.

Which model refuses them is a fact of the model (`penstock.providers.thinking`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.diagnostics import Diagnostics
    from penstock.providers.thinking import Thinking

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
