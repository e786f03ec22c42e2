"""`HybridTokenEstimator`: how many tokens a text, a message or a whole request is, and how sure that is.

What a provider said about a prompt is believed for that very prompt (`actual`) and for the beginning of the next
(`hybrid`); the rest is estimated by family (`model`), corrected by what was learned for provider and model (`learn`).
Pure: stores are handed in. docs/tokens.md says how it is used, and how far off it was.
"""

from __future__ import annotations

from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from penstock.diagnostics import Diagnostic
from penstock.errors import InputError
from penstock.request import Message, Request, Tool, Turn
from penstock.tokens import count_cache, families, features
from penstock.tokens.count_cache import Outcome, Shelf, outcome
from penstock.tokens.families import Factors, Tables, factors, tables
from penstock.tokens.features import HIDDEN, REASONING, TEXT, Counter, tokens, values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.events import Usage
    from penstock.stores import CountStore, FactorStore
    from penstock.tokens.count_cache import Count
    from penstock.tokens.families import Family

NEAR = 0.9
"""From this share of the limit on it is said."""


def warning(estimate: Estimate, limit: int) -> Diagnostic | None:
    """None while there is room, or no limit is known."""
    if limit <= 0 or estimate.tokens < NEAR * limit:
        return None
    share = f"{estimate.tokens:,} of {limit:,} tokens ({estimate.tokens / limit:.0%}; {estimate.method}"
    share += ")" if estimate.method == "actual" else f", {estimate.low:,} to {estimate.high:,})"
    if estimate.tokens > limit:
        return Diagnostic("over-limit", f"the prompt is probably too long: {share}; drop or shorten messages", "tokens")
    return Diagnostic("near-limit", f"the prompt comes near the limit: {share}", "tokens")


KEEPS = 50.0  # a family that pays so much for hidden reasoning reads it again


class Ready:
    """`salt` tells its counts from those of others; `exact` if its texts are counted by a real tokeniser."""

    __slots__ = ("constants", "counter", "factor", "family", "high", "low", "name", "salt")

    def __init__(self, name: str, family: Family, counter: Counter, salt: bytes, *, exact: bool) -> None:
        self.name = name
        self.family = family
        self.counter = counter
        self.salt = salt
        fitted = list(values(family.constants))
        if exact:
            fitted[TEXT] = 1.0  # the fitted scale mends what counting by classes gets wrong
        self.constants = tuple(fitted)
        self.low, self.high = family.constants.low, family.constants.high
        self.factor = 1.0

    def message(self, message: Message) -> Count:
        tally = self.counter.message(message)
        return tokens(tally, self.constants), features.of_message(tally, self.constants)

    def thought(self, message: Message, reasoning: float) -> float:
        """What of a turn's reasoning is read again when the turn comes back."""
        amounts = self.counter.message(message).amounts
        if amounts[HIDDEN]:
            return reasoning if self.constants[HIDDEN] > KEEPS else 0.0
        return min(reasoning, amounts[REASONING] * self.constants[REASONING])

    def frame(self, request: Request) -> Count:
        tally = self.counter.frame(request)
        return tokens(tally, self.constants), features.of_frame(tally, self.constants)


Method: TypeAlias = Literal["actual", "hybrid", "estimated"]
PREFIXES = 20_000  # prompts whose actual count is remembered
BACK = 64  # how far back a known beginning is looked for
KNOWN = 512  # models at a time
SEAM = 4.0  # how far off the seam between what is known and what is new may be


class Estimate(msgspec.Struct, frozen=True, gc=False):
    """A count. `low` and `high` hold the actual one 9 times in 10; `confidence` is 1 where they meet, 0 where they mean
    nothing.
    """

    tokens: int
    method: Method
    confidence: float
    low: int
    high: int

    def __int__(self) -> int:
        return self.tokens


class Line(msgspec.Struct, frozen=True):
    """One line of a breakdown: a message, or what stands around all of them."""

    what: str
    estimate: Estimate


class Breakdown(msgspec.Struct, frozen=True):
    """A request, line by line; `total` may know better than their sum."""

    family: str
    lines: list[Line]
    total: Estimate


class HybridTokenEstimator:
    """Counts for any model. One estimator may serve many conversations; it is not made for several threads at once.

    `chars_per_token` counts text by its length alone; `provider_overrides` does so for some providers.
    With `conservative`, `tokens` is the upper bound. `counters` are real tokenisers by the name of their vocabulary.
    `prompts`: how many are remembered with their actual count; with 0 every count is an estimate.
    """

    def __init__(
        self, chars_per_token: float | None = None, *, conservative: bool = False,
        provider_overrides: Mapping[str, float] | None = None,
        counters: Mapping[str, Callable[[str], float]] | None = None, counts: CountStore | None = None,
        learned: FactorStore | None = None, tenant: str = "", facts: Tables | None = None, prompts: int = PREFIXES,
    ) -> None:  # fmt: skip
        overrides = dict(provider_overrides or {})
        for name, value in {"chars_per_token": chars_per_token, **overrides}.items():
            if value is not None and not value > 0:
                raise InputError(f"{name}: expected characters per token, a number above 0, found {value}")
        self._chars, self._overrides = chars_per_token, overrides
        self._conservative = conservative
        self._counters = dict(counters or {})
        self._facts = facts or tables()
        self._tenant, self._learned = tenant, learned
        self._factors: dict[str, families.Factor] = {}
        self._models: dict[tuple[str, str], Ready] = {}
        self.cache = Shelf(counts, tenant)
        self._prompts = Shelf(counts, tenant, prompts)

    # ── counting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def estimate_text(self, text: str, model: str = "", provider: str = "") -> Estimate:
        """A text by itself, without the framing of a message."""
        by = self._model(model, provider)
        amount = by.counter.text(text) * by.constants[TEXT]
        return self._estimate(by, amount, amount * features.WORDS)

    def estimate_message(self, message: Message, model: str = "", provider: str = "") -> Estimate:
        """A message with its framing; its content counts once, whatever was counted before."""
        by = self._model(model, provider)
        return self._estimate(by, *self._counts(by, [message], [count_cache.digest(message)])[0])

    def estimate_conversation(
        self, request: Request | Sequence[Message], model: str = "", provider: str = "", tools: Sequence[Tool] = ()
    ) -> Estimate:
        """Everything that will be sent: messages, tools, the form of the answer, and what the provider adds."""
        return self.breakdown(request, model, provider, tools, lines=False).total

    def breakdown(
        self, request: Request | Sequence[Message], model: str = "", provider: str = "", tools: Sequence[Tool] = (), *,
        lines: bool = True,
    ) -> Breakdown:  # fmt: skip
        """The same, with a line for each message."""
        asked = _asked(request, tools)
        by = self._model(model or asked.model, provider, fresh=True)
        digests = [count_cache.digest(message) for message in asked.messages]
        frame = count_cache.frame_digest(asked, by.name)
        around = self.cache.all([_salted(by.salt, frame)], lambda _: by.frame(asked))[0]
        counts = self._counts(by, asked.messages, digests)
        total = self._total(by, asked, count_cache.chain(frame, digests), around, counts)
        if not lines:
            return Breakdown(by.family.name, [], total)
        told = [
            Line(message.role, self._estimate(by, *count))
            for message, count in zip(asked.messages, counts, strict=True)
        ]
        return Breakdown(by.family.name, [Line("around", self._estimate(by, *around)), *told], total)

    def _total(self, by: Ready, asked: Request, names: list[bytes], around: Count, counts: list[Count]) -> Estimate:
        last = len(names) - 1
        known = self._prompts.get(names[: -BACK - 1 : -1])
        place = next((place for place in range(last, max(-1, last - BACK), -1) if names[place] in known), None)
        if place is None:
            amount, off = map(sum, zip(*counts, strict=True)) if counts else (0.0, 0.0)
            return self._estimate(by, around[0] + amount, features.together(around[1], off))
        actual = known[names[place]][0]
        if place == last:
            return Estimate(round(actual), "actual", 1.0, round(actual), round(actual))
        reply = self._reply(by, names[place], asked.messages[place])
        tail = counts[place + (reply is not None) :]
        fixed = actual + (0.0 if reply is None else reply)
        return self._estimate(by, sum(row[0] for row in tail), SEAM + sum(row[1] for row in tail), fixed)

    def _reply(self, by: Ready, prompt: bytes, message: Message) -> float | None:
        """What the provider itself counted for the turn that comes back here."""
        if message.role != "assistant":
            return None
        name = _answered(prompt, count_cache.said(message.parts))
        found = self._prompts.get([name]).get(name)
        return None if found is None else found[0] + by.thought(message, found[1])

    def _counts(self, by: Ready, messages: Sequence[Message], digests: Sequence[bytes]) -> list[Count]:
        named = [_salted(by.salt, digest) for digest in digests]
        return self.cache.all(named, lambda place: by.message(messages[place]))

    def _estimate(self, by: Ready, amount: float, off: float, fixed: float | None = None) -> Estimate:
        amount *= by.factor
        known = fixed or 0.0
        low = round(known + max(0.0, amount - by.low * off))
        high = round(known + amount + by.high * off + 0.499)
        total = round(known + amount)
        sure = max(0.0, 1 - (high - low) / (2 * total)) if total else 0.0
        shown = high if self._conservative else total
        return Estimate(shown, "estimated" if fixed is None else "hybrid", round(sure, 3), low, high)

    # ── learning ──────────────────────────────────────────────────────────────────────────────────────────────────

    def calibrate(
        self, request: Request | Sequence[Message], seen: Turn | Usage | int, model: str = "", provider: str = "",
        tools: Sequence[Tool] = (),
    ) -> None:  # fmt: skip
        """What a provider reported for this very request: a turn, its usage, or the input tokens alone."""
        asked, heard = _asked(request, tools), outcome(seen)
        if heard.input is None or heard.inside:
            return  # nothing was said, or tools that the provider ran are in the figure
        by = self._model(model or asked.model, provider, fresh=True)
        digests = [count_cache.digest(message) for message in asked.messages]
        frame = count_cache.frame_digest(asked, by.name)
        raw = self.cache.all([_salted(by.salt, frame)], lambda _: by.frame(asked))[0][0]
        raw += sum(row[0] for row in self._counts(by, asked.messages, digests))
        self._remember(count_cache.chain(frame, digests)[-1], heard)
        if not heard.steps:
            self._learn(by, raw, heard.input)

    def _remember(self, prompt: bytes, heard: Outcome) -> None:
        rows: dict[bytes, Count] = {prompt: (float(heard.input or 0), 0.0)}
        if heard.reply is not None and heard.output is not None:
            rows[_answered(prompt, heard.reply)] = (float(heard.output), float(heard.reasoning))
        self._prompts.put(rows)

    def _learn(self, by: Ready, raw: float, actual: int) -> None:
        if self._learned is None:
            self._factors[by.name] = families.learned(self._factors.get(by.name, families.Factor()), raw, actual)
        else:
            row = self._learned.update(
                self._tenant, by.name, lambda old: families.written(families.learned(families.read(old), raw, actual))
            )
            self._factors[by.name] = families.read(row)
        by.factor = self._factors[by.name].value

    def factor(self, model: str, provider: str = "") -> families.Factor:
        """What was learned for a provider's model."""
        by = self._model(model, provider, fresh=True)
        return self._factors.get(by.name, families.Factor())

    def reset(self) -> None:
        """Forget counts and prompts in memory. What was learned stays, and so does what a store holds."""
        self.cache.clear()
        self._prompts.clear()

    # ── for gateways and clients ──────────────────────────────────────────────────────────────────────────────────

    def factors(self, model: str, provider: str = "") -> Factors:
        """All that a thin client needs to count for this model without asking."""
        by = self._model(model, provider, fresh=True)
        return factors(model, provider, by.family, self._facts, by.factor)

    def preflight(
        self, request: Request | Sequence[Message], limit: int, model: str = "", provider: str = "",
        tools: Sequence[Tool] = (),
    ) -> Diagnostic | None:  # fmt: skip
        """A warning from 90% of a model's input limit on; never more than a warning."""
        return warning(self.estimate_conversation(request, model, provider, tools), limit)

    # ── models ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _model(self, model: str, provider: str, *, fresh: bool = False) -> Ready:
        by = self._models.get((provider, model))
        if by is None:
            if len(self._models) >= KNOWN:
                self._models.clear()
            by = self._models[provider, model] = self._made(model, provider)
            fresh = True
        if fresh:  # another process may have learned something
            if self._learned is not None:
                row = self._learned.get(self._tenant, [by.name]).get(by.name)
                if row is not None:
                    self._factors[by.name] = families.read(row)
            by.factor = self._factors.get(by.name, families.Factor()).value
        return by

    def _made(self, model: str, provider: str) -> Ready:
        family = self._facts.of(model, provider)
        chars = self._overrides.get(provider) or self._chars
        count = self._counters.get(family.vocabulary)
        way = family.vocabulary if count is not None else "classes"
        if chars:
            count, way = partial(_by_length, chars), str(chars)
        salt = count_cache.packed((self._facts.version, family.name, way))
        counter = Counter(family, self._facts.pictures, count)
        return Ready(f"{provider}/{model}", family, counter, salt, exact=count is not None)


def _asked(request: Request | Sequence[Message], tools: Sequence[Tool]) -> Request:
    if isinstance(request, Request):
        return msgspec.structs.replace(request, tools=[*request.tools, *tools]) if tools else request
    return Request(messages=list(request), tools=list(tools))


def _by_length(chars: float, text: str) -> float:
    return len(text) / chars


def _salted(salt: bytes, digest: bytes) -> bytes:
    return blake2b(digest, key=salt[:64], digest_size=count_cache.SIZE).digest()


def _answered(prompt: bytes, said: bytes) -> bytes:
    return blake2b(prompt + said, key=b"reply", digest_size=count_cache.SIZE).digest()
