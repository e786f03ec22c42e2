"""A provider's own list of models, read: what it tells goes before the facts table, and is marked as told by it.

Lists differ in where things stand, not in what is said: tables of places and of words read them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock._lenient_fields import Object, as_object
from penstock._providers.identity import kind
from penstock._providers.models import NAME, PROVIDER, Model, model, with_configured
from penstock._providers.registry import Prices, Provider
from penstock._strict_fields import parse_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_LIST = ("data", "models", "modelSummaries", "publisherModels", "resources", "result")
_ID = ("id", "modelId", "model_id", "model", "name")
_IDS = {"cloudflare-models": ("name",), "gemini-models": ("name",)}  # where an id is not what a model is asked for by
_CONTEXT = (
    "context_length", "context_window", "contextWindow", "max_context_length", "max_model_len", "inputTokenLimit",
    "max_input_tokens", "context_size", "contextLength", "model_limits.max_sequence_length", "limits.context",
    "top_provider.context_length", "model_spec.availableContextTokens", "meta.n_ctx_train", "details.context_length",
)  # fmt: skip
_INPUT = ("inputTokenLimit", "max_input_tokens")
_OUTPUT = (
    "max_output_tokens", "max_completion_tokens", "outputTokenLimit", "top_provider.max_completion_tokens",
    "max_tokens", "max_output_length", "model_limits.max_output_tokens", "limits.output",
)  # fmt: skip
_PRICES = (  # input, output, cached, written: of two ways to name them
    ("pricing.prompt", "pricing.completion", "pricing.input_cache_read", "pricing.input_cache_write"),
    ("pricing.input", "pricing.output", "pricing.cached_input", "pricing.input_cache_write"),
    ("metadata.pricing.input_tokens", "metadata.pricing.output_tokens", "metadata.pricing.cache_read_tokens", ""),
)
_SAYS = (
    "type", "model_type", "task", "task.name", "capabilities", "tags", "features", "supported_parameters",
    "supported_features", "endpoints", "supportedGenerationMethods", "functions", "input_modalities",
    "architecture.input_modalities", "architecture.output_modalities", "inputModalities", "outputModalities",
    "model_spec.capabilities", "supports",
)  # fmt: skip
_OUT = frozenset({"architecture.output_modalities", "outputModalities"})
# Words, lower-cased and without separators, and what they say. The kinds come first.
_KINDS = {
    "chat": "chat", "llm": "chat", "vlm": "chat", "language": "chat", "completionchat": "chat", "code": "chat",
    "generatecontent": "chat", "textgeneration": "chat", "textchat": "chat", "chatcompletions": "chat",
    "completion": "chat", "embedding": "embeddings", "embeddings": "embeddings", "embed": "embeddings",
    "embedcontent": "embeddings", "textembeddings": "embeddings", "rerank": "rerank", "reranker": "rerank",
    "completionfim": "fim", "insert": "fim", "supportschat": "chat",
}  # fmt: skip
_ABILITIES = {
    "tools": "tools", "tooluse": "tools", "toolcalling": "tools", "functioncalling": "tools", "supportstools": "tools",
    "supportsfunctioncalling": "tools", "reasoning": "reasoning", "thinking": "reasoning",
    "supportsreasoning": "reasoning", "includereasoning": "reasoning", "vision": "images", "image": "images",
    "imageinput": "images",
    "supportsimageinput": "images", "supportsvision": "images", "file": "documents", "pdf": "documents",
    "pdfinput": "documents", "fileinput": "documents", "audio": "audio", "audioinput": "audio", "video": "video",
    "videoinput": "video", "temperature": "temperature", "structuredoutputs": "structured",
    "responseformat": "structured",
}  # fmt: skip
_OUTPUTS = {"image": "image-output", "audio": "audio-output"}


def read_model_list(provider: Provider, body: bytes | Any, *, chat: bool = True) -> list[Model]:
    """The models of an answer to `models`; only those that can be talked to, unless `chat` is off."""
    value = parse_value(body)[0] if isinstance(body, bytes) else body
    place = provider.endpoints.get("models")
    ids = _IDS.get(place.protocol if place else "", _ID)
    read = [_read(provider, row, ids) for row in _rows(value) if _first(row, ids)]
    ids_read = {row.id for row in read}
    own = [model(provider, name) for name in provider.models if name not in ids_read]
    return [row for row in (*read, *own) if row.chat or not chat]


def _rows(value: Any) -> Iterator[Object]:
    """The rows of a list; one that is switched off is none."""
    rows: Any = value
    if isinstance(value, dict):
        rows = next((as_object(value).get(key) for key in _LIST if isinstance(as_object(value).get(key), list)), ())
    for row in rows if isinstance(rows, list) else ():  # pyright: ignore[reportUnknownVariableType]
        made: Object = as_object(row) or ({"id": row} if isinstance(row, str) else {})
        if made and made.get("active") is not False and made.get("archived") is not True:
            yield made


def _read(provider: Provider, row: Object, ids: tuple[str, ...]) -> Model:
    id = str(_first(row, ids))  # noqa: A001 — as everybody calls it
    for prefix in (*provider.strip, "models/"):
        id = id.removeprefix(prefix)  # noqa: A001 — the same
    known = model(provider, id)
    told = {"context": _number(row, _CONTEXT), "max_input": _number(row, _INPUT), "max_output": _number(row, _OUTPUT)}
    said: dict[str, Any] = {key: value for key, value in told.items() if value}
    prices = _prices(row)
    if prices is not None:
        said["prices"] = prices
    source = {**known.source, **dict.fromkeys(said, PROVIDER)}
    said["capabilities"], source["capabilities"] = _capable(row, known)
    title = _first(row, ("display_name", "displayName", "title"))
    name = title if isinstance(title, str) else known.name
    return with_configured(replace(known, **said, name=name, source=source), provider.models.get(id))


def _capable(row: Object, known: Model) -> tuple[frozenset[str], str]:
    """What it can do, and who says so: what the list denies is believed, what it leaves out the facts complete."""
    said = list(_words(row, yes=True))
    out: list[str] = []
    for path in _SAYS:
        (out if path in _OUT else said).extend(_words(_at(row, path), yes=True))
    denied = {word for value in (row, _at(row, "capabilities")) for word in _words(value, yes=False)}
    kinds = _meant(_KINDS, said)
    told = _meant(_ABILITIES, said) | _meant(_OUTPUTS, out)
    before = known.capabilities & frozenset(_KINDS.values())
    more = known.capabilities - before - _meant(_ABILITIES, denied) - told
    by = [PROVIDER] if kinds or told else []
    if more or not by:
        by.append(known.source.get("capabilities", NAME))
    return frozenset(kinds or before or {kind(known.id)}) | told | more, ", ".join(by)


def _meant(table: dict[str, str], words: Iterable[str]) -> frozenset[str]:
    return frozenset(table[word] for word in words if word in table)


def _words(value: Any, *, yes: bool) -> Iterator[str]:
    """Every word a field says: itself, its items, its keys that are true (or, not `yes`, that are false)."""
    if isinstance(value, str) and yes:
        yield "".join(letter for letter in value.lower() if letter.isalnum())
    elif isinstance(value, list) and yes:
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _words(as_object(item).get("id") if isinstance(item, dict) else item, yes=yes)
    elif isinstance(value, dict):
        for key, given in as_object(value).items():
            if given is yes or as_object(given).get("supported") is yes:
                yield from _words(key, yes=True)


def _prices(row: Object) -> Prices | None:
    for paths in _PRICES:
        found = [_price(_at(row, path)) for path in paths]
        if found[0] is not None and found[1] is not None:
            return Prices(*found)
    return None


def _price(value: Any) -> float | None:
    """A number is for a million tokens; a string, as those who count in tokens write it, is for one."""
    try:
        price = round(float(value) * 1_000_000, 6) if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return None
    return price if 0 <= price < 1_000_000 else None  # a price below nothing says that it depends  # noqa: PLR2004


def _at(row: Object, path: str) -> Any:
    value: Any = row
    for step in path.split("."):
        value = as_object(value).get(step)
    return value


def _first(row: Object, paths: tuple[str, ...]) -> Any:
    return next((found for path in paths if (found := _at(row, path))), None)


def _number(row: Object, paths: tuple[str, ...]) -> int:
    found = (_at(row, path) for path in paths)
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool) and value > 0), 0)
