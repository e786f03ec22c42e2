"""Which models fill in the middle, and the prompts for servers that take no suffix. The data are in `fim.toml`."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._diagnostics import read_tables
from penstock._providers.registry import matches

if TYPE_CHECKING:
    from penstock._lenient_fields import Object
    from penstock._providers.registry import Provider

FIM = "fim"  # the capability
_STOPS = 4  # of a request, as OpenAI documents it


class FimFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How some models want prefix and suffix in one prompt."""

    models: tuple[str, ...]
    prompt: str
    stop: tuple[str, ...] = ()

    def write_prompt(self, prefix: str, suffix: str) -> str:
        """Returns the prompt. Braces in the texts are kept as they are."""
        before, _, rest = self.prompt.partition("{prefix}")
        pieces = [piece.replace("{suffix}", suffix) for piece in (before, rest)]
        return prefix.join(pieces)


@cache
def _formats() -> tuple[FimFormat, ...]:
    rows = read_tables("penstock._providers", "fim.toml")
    return tuple(msgspec.convert(row, FimFormat) for row in rows["formats"])


@lru_cache(1000)
def fim_format(model: str) -> FimFormat | None:
    """Returns the format of a model's prompts; None if it is not known to fill in the middle."""
    name = model.lower()
    return next((row for row in _formats() if matches(name, row.models)), None)


def fills_in(provider: Provider, model: str) -> bool:
    """True if the model is known to fill in the middle at the provider. Facts of the configuration go first."""
    configured = provider.models.get(model)
    if configured is not None and configured.fim is not None:
        return configured.fim
    if not any(provider.endpoint(operation, model) for operation in ("fim", "completions")):
        return False
    if provider.fim_models:
        return matches(model, provider.fim_models)
    return provider.fim_prompt and fim_format(model) is not None


def write_suffix_into_prompt(body: Object, provider: Provider, model: str) -> Object:
    """Returns the body of a completion as the provider takes it. A model of unknown format keeps its `suffix`."""
    suffix, prompt = body.get("suffix"), body.get("prompt")
    found = fim_format(model) if provider.fim_prompt else None
    if found is None or not isinstance(suffix, str) or not isinstance(prompt, str):
        return body
    given: Any = body.get("stop") or ()
    stops = [*((given,) if isinstance(given, str) else given), *found.stop][:_STOPS]
    rest = {name: value for name, value in body.items() if name != "suffix"}
    return {**rest, "prompt": found.write_prompt(prompt, suffix), "stop": stops}
