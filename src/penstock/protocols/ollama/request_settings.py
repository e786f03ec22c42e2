"""Options of an Ollama request → canonical settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.reading import rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

SETTINGS = frozenset({"options", "format", "think", "logprobs", "top_logprobs"})
_OPTIONS = frozenset({
    "num_predict", "temperature", "top_p", "top_k", "stop", "seed", "frequency_penalty", "presence_penalty",
})  # fmt: skip


def read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """The settings, and how they were said."""
    options = reading.table(body, "options")
    try:
        settings, known = _options(options)
    except BadRequest as error:
        raise error.at("options") from None
    settings.format = read_format(body.get("format"))
    settings.logprobs, settings.top_logprobs = reading.flag(body, "logprobs"), reading.whole(body, "top_logprobs")
    think = body.get("think")
    settings.effort, settings.budget, settings.thoughts = read_think(think)
    single = isinstance(options.get("stop"), str)
    return settings, {
        "options": rest(options, known), "unsaid": unsaid(options, known), "single": single,
        "think": [] if think is None else [think],
    }  # fmt: skip


def _options(options: Object) -> tuple[rq.Settings, frozenset[str]]:
    """A limit below zero means none, or all of the context: that stays as it is."""
    limit = reading.whole(options, "num_predict")
    odd = limit is not None and limit < 0
    settings = rq.Settings(
        max_output=None if odd else limit,
        temperature=reading.number(options, "temperature"),
        top_p=reading.number(options, "top_p"),
        top_k=reading.whole(options, "top_k"),
        stop=reading.strings(options, "stop"),
        seed=reading.whole(options, "seed"),
        frequency_penalty=reading.number(options, "frequency_penalty"),
        presence_penalty=reading.number(options, "presence_penalty"),
    )
    return settings, _OPTIONS - {"num_predict"} if odd else _OPTIONS


def read_think(think: Any) -> tuple[str, int | None, bool | None]:
    """(effort, budget, whether it is wanted at all)."""
    if think is None:
        return "", None, None
    if isinstance(think, str):
        return think, None, None
    if not isinstance(think, bool):
        raise BadRequest("true, false or a level", think, "think")
    return ("", None, True) if think else ("", 0, None)


def read_format(given: Any) -> rq.Format | None:
    """The form of the answer: any JSON, or that of a schema."""
    if given is None or given == "":
        return None
    if isinstance(given, dict):
        return rq.Format("schema", schema=cast("Object", given))
    if given != "json":
        raise BadRequest('"json" or a schema', given, "format")
    return rq.Format("json")
