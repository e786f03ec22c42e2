"""Other ways to count text: by its length, or with real tokenizers from the optional extra `bpe`; checks of parameters.

Pass `counters()` to the estimator. A vocabulary takes about 150 MB and half a second, so it is loaded on first use.
Long texts are split at spaces, because the package refuses them; each split changes the count by at most one token. The
package `bpe-openai` contains its vocabularies and uses no network.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from warnings import catch_warnings, simplefilter

from penstock._input_limits import MAX_COUNT
from penstock.errors import BadRequest, InputError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Bound: TypeAlias = Literal["tokens", "high"]
_ENCODINGS = {"o200k": "o200k_base", "cl100k": "cl100k_base"}
MAX_CHARACTERS = 100_000
SEARCH_RANGE = 2_000  # characters before the limit in which a space is searched


def counters() -> dict[str, Callable[[str], float]]:
    """Returns the value for `HybridTokenEstimator(counters=…)`. Loads nothing yet."""
    return {name: Vocabulary(encoding) for name, encoding in _ENCODINGS.items()}


class Vocabulary:
    """Counts the tokens of one encoding, which is loaded on first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._encode: Callable[[str], Any] | None = None

    def __call__(self, text: str) -> float:
        encode = self._encode or self._load()
        clean = text.encode("utf-8", "replace").decode() if not text.isascii() else text
        return float(sum(len(encode(piece)) for piece in split_text(clean)))

    def _load(self) -> Callable[[str], Any]:
        with catch_warnings():
            simplefilter("ignore", DeprecationWarning)  # from the way the package opens its files
            try:
                package: Any = import_module("bpe_openai")
            except ImportError:
                raise MissingExtra("bpe-openai", "bpe") from None
            encode: Callable[[str], Any] = package.get_encoding(self._name).encode_ordinary
        self._encode = encode
        return encode


def split_text(text: str, size: int = MAX_CHARACTERS) -> Iterator[str]:
    """Splits a text into pieces of at most `size` characters, before a space if one is near the limit."""
    start = 0
    while len(text) - start > size:
        space = text.rfind(" ", start + max(1, size - SEARCH_RANGE), start + size)
        end = space if space > start else start + size
        yield text[start:end]
        start = end
    yield text[start:]


def check_characters(name: str, value: Any) -> float:
    """Returns the characters per token, which are given as a number or as the option `chars_per_token`."""
    if isinstance(value, Mapping):
        options: dict[Any, Any] = {**value}
        if options.keys() != {"chars_per_token"}:
            found = ", ".join(map(str, options)) or "none"
            raise InputError(f"{name}: expected the option chars_per_token, found {found}")
        value = options["chars_per_token"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InputError(f"{name}: expected characters per token, a number above 0, found {value!r}")
    return float(value)


def check_text(text: Any) -> str:
    """Returns a text. Raises `InputError` for anything else."""
    if not isinstance(text, str):
        raise BadRequest("a text", text, "text")
    return text


def check_tokens(name: str, value: Any, least: int = 1) -> int:
    """Returns a number of tokens that a prompt can have. Raises `InputError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name}: expected a whole number of tokens, found {value!r:.40}")
    if not least <= value <= MAX_COUNT:
        shown = value if abs(value) <= MAX_COUNT else "a larger number" if value > 0 else "a smaller number"
        raise InputError(f"{name}: expected {least} to {MAX_COUNT:,} tokens, found {shown}")
    return value


def check_limit(limit: int, reserve: int, by: str) -> int:
    """Returns the room for the prompt. Raises `InputError` if there is none, or if `by` is no bound."""
    if by not in get_args(Bound):
        raise InputError(f"by: expected one of {', '.join(get_args(Bound))}, found {by!r}")
    check_tokens("limit", limit, -MAX_COUNT)
    if check_tokens("reserve", reserve, -MAX_COUNT) < 0 or limit <= reserve:
        raise InputError(f"limit: expected more than the reserve of {reserve:,} tokens, found {limit:,}")
    return limit - reserve


def count_by_length(chars_per_token: float, text: str) -> float:
    return len(text) / chars_per_token
