"""Chooses among the targets of an alias, and remembers how they do: open requests, time to first token, cool-downs.

Only requests with several targets come here. All of it is memory of this process and bounded; `shared` tells other
processes of cool-downs. A choice is made before the first content of an answer, never after it.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._diagnostics import Diagnostic
from penstock._engines.failure_policy import CircuitKey
from penstock._engines.reply import ModelReply
from penstock._http_errors import rate_limit_reset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._engines.conversation_digest import ConversationDigest
    from penstock._engines.failure_policy import CircuitBreakers, TargetPublisher
    from penstock._engines.model_resolution import Target, TargetPool
    from penstock._engines.request_plan import RoutedRequest
    from penstock.errors import ProviderError

MOVED = "conversation-moved"
Identity: TypeAlias = tuple[str, str]  # provider and model
MAX_COOL_DOWN = 3600.0  # seconds: a header that is misread must not exclude a target for longer
LIMITED_SECONDS = 5.0  # of a rate limit without a time
REFUSED_SECONDS = 60.0  # of a key without access or credit
EXPLORED_SHARE = 0.1  # of the choices by speed go to another target, so that its speed stays known
_NEW_SHARE = 0.3  # of a new measurement in the mean
_MEAN_SECONDS = 300.0  # after which a measurement is forgotten
_STICKY_SECONDS = 3600.0  # since the last turn: no prompt cache holds for longer without use
MAX_CONVERSATIONS = 20_000
MAX_DEPLOYMENTS = 1_000  # clients choose the names of models


class CoolDown(NamedTuple):
    """A time in which a target is avoided. `stated`: the provider refused and gave the time, so it is not asked.

    Otherwise the time is a guess or a hint: the target is asked last.
    """

    until: float
    why: str
    stated: bool


class _Deployment(msgspec.Struct):
    """What is known of a target. `means`: for streams and for whole answers, the mean time and when it was measured."""

    open: int = 0
    means: dict[bool, tuple[float, float]] = {}


class OpenRequest:
    """Counts one open request of a target until it is released, or until nobody refers to it."""

    __slots__ = ("_deployment",)

    def __init__(self, deployment: _Deployment) -> None:
        self._deployment: _Deployment | None = deployment
        deployment.open += 1

    def release(self) -> None:
        """Ends the request. A second call does nothing."""
        if self._deployment is not None:
            self._deployment.open -= 1
            self._deployment = None

    def __del__(self) -> None:
        self.release()


class TargetRoute:
    """The targets of one request in the order to try them, those that are left out, and the wait if all are."""

    def __init__(self, deployments: Deployments, credential: str, turn: RoutedRequest | None) -> None:
        self.targets: list[Target] = []
        self.skipped: list[tuple[Target, CoolDown]] = []
        self.wait: float = 0.0
        self.cooling: set[Identity] = set()
        self.moved: str = ""  # that a conversation leaves its target, and which
        self.stream: bool = turn is not None and turn.request.stream
        self._deployments, self._credential, self._turn = deployments, credential, turn
        self._conversations: dict[str, ConversationDigest] = {}

    @property
    def pooled(self) -> bool:
        """True if a strategy chose among targets."""
        return any(target.pool is not None for target in self.targets)

    def key(self, target: Target) -> CircuitKey:
        return CircuitKey.of(target.provider.name, target.model, self._credential)

    def conversation(self, pool: TargetPool) -> ConversationDigest | None:
        """Returns what identifies the conversation for a pool; None if the pool is not sticky."""
        if not pool.sticky or self._turn is None:
            return None
        if pool.name not in self._conversations:
            from penstock._engines.conversation_digest import identify_conversation  # noqa: PLC0415 — few aliases need it

            tenant = self._turn.convert.get("tenant", "")
            self._conversations[pool.name] = identify_conversation(self._turn.request, tenant, pool.name)
        return self._conversations[pool.name]

    def start(self, target: Target) -> Attempt:
        """Counts an attempt as open."""
        return Attempt(self, self._deployments, target)


class Attempt:
    """One attempt at a target: measured, and counted as open until its answer ends."""

    def __init__(self, route: TargetRoute, deployments: Deployments, target: Target) -> None:
        self._route, self._deployments, self._target = route, deployments, target
        self._open = OpenRequest(deployments.deployment(target))
        self._began = deployments.clock()

    def failed(self, error: ProviderError | None) -> None:
        """Ends the attempt. An error of the target may cool it down."""
        self._open.release()
        if error is not None:
            self._deployments.note_error(self._route.key(self._target), error)

    def succeeded(self, result: object) -> None:
        """Takes the measurements of an answer that has begun. The request stays open until the answer ends."""
        if not isinstance(result, ModelReply):
            self._open.release()
            return
        deployments, target = self._deployments, self._target
        result.hold(self._open.release)
        if self._route.moved:
            result.add_diagnostic(Diagnostic(MOVED, self._route.moved, target.pool.name if target.pool else ""))
        deployments.note_time(target, deployments.clock() - self._began, stream=self._route.stream)
        deployments.note_limit(self._route.key(target), result.seconds_to_limit_reset())
        if target.pool is not None and (conversation := self._route.conversation(target.pool)):
            deployments.remember(conversation.key, _identify(target))


class Deployments:
    """The state of all targets, and the choice among them. `chance` returns numbers from 0 to 1; tests give a seed."""

    def __init__(self, clock: Callable[[], float], chance: Callable[[], float]) -> None:
        self.clock: Callable[[], float] = clock
        self.chance: Callable[[], float] = chance
        self.shared: TargetPublisher | None = None
        self._cool_downs: OrderedDict[CircuitKey, CoolDown] = OrderedDict()
        self._others: Mapping[CircuitKey, CoolDown] = {}
        self._deployments: OrderedDict[Identity, _Deployment] = OrderedDict()
        self._conversations: OrderedDict[bytes, tuple[Identity, float]] = OrderedDict()
        self._strategies = {"weighted": self._by_weight, "least-busy": self._by_load, "fastest": self._by_speed}

    # ── the choice ────────────────────────────────────────────────────────────────────────────────

    def arrange(
        self, targets: Sequence[Target], credential: str, turn: RoutedRequest | None, breakers: CircuitBreakers
    ) -> TargetRoute:
        """Returns the order in which to try the targets: the free ones, then those that may be limited.

        Targets that refused and gave a time are left out. If all are, the route has the time until the first is free.
        """
        route, now = TargetRoute(self, credential, turn), self.clock()
        free: list[Target] = []
        cooling: list[tuple[Target, CoolDown]] = []
        for target in targets:
            key = route.key(target)
            cool_down = self.cool_down(key)
            if cool_down is None and target.pool is not None and (left := breakers.seconds_left(key)):
                cool_down = CoolDown(now + left, "it has failed too often", stated=False)
            if cool_down is None:
                free.append(target)
            else:
                cooling.append((target, cool_down))
        cooling.sort(key=lambda row: row[1].until)
        route.cooling = {_identify(target) for target, _ in cooling}
        for _, group in groupby(free, lambda target: target.pool and target.pool.name):
            route.targets += self._order_pool(list(group), route)
        route.targets += [_chosen(one, "cooling", self.describe(one, why)) for one, why in cooling if not why.stated]
        route.skipped = [(target, why) for target, why in cooling if why.stated]
        if not route.targets:
            route.wait = max(0.001, route.skipped[0][1].until - now)
        return route

    def describe(self, target: Target, cool_down: CoolDown) -> str:
        """Returns a sentence about a cool-down."""
        left = max(0.1, cool_down.until - self.clock())
        return f"{_name(target)} cools down for another {left:.1f} s: {cool_down.why}"

    def _order_pool(self, members: list[Target], route: TargetRoute) -> list[Target]:
        """Returns the targets of one pool, the chosen one first, with the reason in it."""
        pool = members[0].pool
        if pool is None:
            return members
        conversation = route.conversation(pool)
        before = self._remembered(conversation) if conversation is not None else None
        if len(members) == 1:
            ordered, code, why = members, pool.strategy, "the only target that does not cool down"
        else:
            ordered, code, why = self._strategies[pool.strategy](pool, members, route)
        stays = next((one for one in ordered if _identify(one) == before), None)
        if stays is not None:
            ordered = [stays, *(one for one in ordered if one is not stays)]
            code, why = "sticky", "it has the conversation's earlier turns, and perhaps their prompt cache"
        elif before in route.cooling:
            route.moved = f"the conversation moves here from {'/'.join(before or ())}, which cools down"
            why = f"{why}; {route.moved}"
        first, *rest = ordered
        return [_chosen(first, code, f"{pool.name}: {why}"), *rest]

    def _by_weight(self, pool: TargetPool, members: list[Target], route: TargetRoute) -> tuple[list[Target], str, str]:
        """By chance, in proportion to the weights.

        The first turn of a new conversation is placed by its digest, so that all processes agree where it belongs.
        """
        conversation = route.conversation(pool)
        is_new = conversation is not None and conversation.prefix not in self._conversations
        ordered = self._draw(members, conversation.prefix if conversation is not None and is_new else b"")
        total = sum(one.weight for one in members)
        return ordered, pool.strategy, f"chosen by weight, {ordered[0].weight:g} of {total:g}"

    def _by_load(self, pool: TargetPool, members: list[Target], _: TargetRoute) -> tuple[list[Target], str, str]:
        """The fewest open requests of this process in proportion to the weight; by chance among equals."""

        def load(target: Target) -> float:
            return self.deployment(target).open / target.weight if target.weight else math.inf

        ordered = sorted(self._draw(members), key=load)
        first, second = (self.deployment(one).open for one in ordered[:2])
        why = f"least busy with {first} open requests; {_name(ordered[1])} has {second}"
        return ordered, pool.strategy, why

    def _by_speed(self, pool: TargetPool, members: list[Target], route: TargetRoute) -> tuple[list[Target], str, str]:
        """The shortest mean time to the first token. Targets without a recent measurement are tried first."""
        means = {_identify(one): self._mean(one, stream=route.stream) for one in members}
        ordered = sorted(self._draw(members), key=lambda one: (means[_identify(one)] or math.inf, self._load(one)))
        unknown = [one for one in ordered if means[_identify(one)] is None and not self._load(one)]
        if unknown:
            return _first(unknown[0], ordered), "explore", "its time to the first token is not known yet"
        if self.chance() < EXPLORED_SHARE:
            other = self._draw(ordered[1:])[0]
            return _first(other, ordered), "explore", "measured again, as one choice in ten is"
        mean = means[_identify(ordered[0])]
        if mean is None:
            return ordered, pool.strategy, "no time to the first token is known yet, and it is the least busy"
        what = "first token" if route.stream else "answer"
        return ordered, pool.strategy, f"fastest, {what} after {mean:.2f} s on average"

    def _draw(self, members: list[Target], digest: bytes = b"") -> list[Target]:
        """Returns the targets in random order, in proportion to their weights; with a digest always in the same one."""

        def key(target: Target) -> float:
            number = _hash_fraction(digest, target) if digest else self.chance()
            return -math.log(1.0 - min(number, 1 - 1e-12)) / target.weight if target.weight else math.inf

        return [one for _, _, one in sorted((key(one), number, one) for number, one in enumerate(members))]

    # ── the state of targets ──────────────────────────────────────────────────────────────────────

    def deployment(self, target: Target) -> _Deployment:
        """Returns the state of a target."""
        identity = _identify(target)
        found = self._deployments.get(identity)
        if found is None:
            found = self._deployments[identity] = _Deployment()
            if len(self._deployments) > MAX_DEPLOYMENTS:
                self._deployments.popitem(last=False)
        else:
            self._deployments.move_to_end(identity)
        return found

    def _load(self, target: Target) -> int:
        return self.deployment(target).open

    def open_requests(self, provider: str, model: str) -> int:
        """Returns the number of requests that a target has open in this process."""
        found = self._deployments.get((provider, model))
        return found.open if found is not None else 0

    def _mean(self, target: Target, *, stream: bool) -> float | None:
        mean, at = self.deployment(target).means.get(stream, (0.0, -math.inf))
        return mean if self.clock() - at < _MEAN_SECONDS else None

    def note_time(self, target: Target, seconds: float, *, stream: bool) -> None:
        """Adds a measurement to the decaying mean of a target."""
        before = self._mean(target, stream=stream)
        mean = seconds if before is None else before + _NEW_SHARE * (seconds - before)
        self.deployment(target).means[stream] = (mean, self.clock())

    def cool_down(self, key: CircuitKey) -> CoolDown | None:
        """Returns the cool-down of a target, if it has one now."""
        for known in (self._cool_downs, self._others):
            found = known.get(key)
            if found is not None and found.until > self.clock():
                return found
        return None

    def adopt(self, others: Mapping[CircuitKey, CoolDown]) -> None:
        """Takes the cool-downs that other processes have now."""
        self._others = others

    def cooling_count(self) -> int:
        """Returns the number of targets that cool down now."""
        now = self.clock()
        return sum(1 for one in {**self._others, **self._cool_downs}.values() if one.until > now)

    def note_error(self, key: CircuitKey, error: ProviderError) -> None:
        """Cools a target down after a rate limit, for as long as the provider says; and after a refused key."""
        if error.kind in {"auth", "quota"}:
            self._cool(key, REFUSED_SECONDS, f"its key was refused ({error.kind})", stated=False)
        elif error.kind == "rate-limit" or (error.kind == "overloaded" and error.retry_after):
            stated = error.retry_after or rate_limit_reset(error.headers, time.time(), refused=True)
            asked = f"it asked for {stated:g} s" if stated else "it gave no time"
            self._cool(key, stated or LIMITED_SECONDS, f"{error.kind}, {asked}", stated=bool(stated))

    def note_limit(self, key: CircuitKey, left: float | None) -> None:
        """Cools a target down if an answer says that nothing is left of a limit, for so many seconds."""
        if left:
            self._cool(key, left, f"nothing was left of its rate limit, which resets in {left:.1f} s", stated=False)

    def _cool(self, key: CircuitKey, seconds: float, why: str, *, stated: bool) -> None:
        seconds = min(seconds, MAX_COOL_DOWN)
        self._cool_downs[key] = CoolDown(self.clock() + seconds, why, stated)
        self._cool_downs.move_to_end(key)
        if len(self._cool_downs) > MAX_DEPLOYMENTS:
            self._cool_downs.popitem(last=False)
        if self.shared is not None and not key.credential:
            self.shared.publish_cool_down(key, seconds, why, stated=stated)

    # ── conversations ─────────────────────────────────────────────────────────────────────────────

    def remember(self, key: bytes, target: Identity) -> None:
        """Remembers which target a conversation is with."""
        self._conversations[key] = (target, self.clock())
        self._conversations.move_to_end(key)
        if len(self._conversations) > MAX_CONVERSATIONS:
            self._conversations.popitem(last=False)

    def _remembered(self, conversation: ConversationDigest) -> Identity | None:
        """Returns the target of a conversation's earlier turns; None for a first turn."""
        if conversation.is_first_turn:
            return None
        for key in (conversation.key, conversation.prefix):
            found = self._conversations.get(key)
            if found is not None and self.clock() - found[1] < _STICKY_SECONDS:
                return found[0]
        return None


def _identify(target: Target) -> Identity:
    return target.provider.name, target.model


def _name(target: Target) -> str:
    return "/".join(_identify(target))


def _chosen(target: Target, code: str, why: str) -> Target:
    return replace(target, chosen_by=code, why=why)


def _first(target: Target, targets: list[Target]) -> list[Target]:
    return [target, *(one for one in targets if one is not target)]


def _hash_fraction(digest: bytes, target: Target) -> float:
    """Returns a number from 0 to 1 that depends on the digest and the target alone."""
    import hashlib  # noqa: PLC0415 — few aliases need it

    hashed = hashlib.blake2b(_name(target).encode(), key=digest, digest_size=7).digest()
    return int.from_bytes(hashed) / 256**7
