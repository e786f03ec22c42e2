"""Targets for streams: every decoder (streams and whole answers), every encoder, transforms of events."""

from __future__ import annotations

from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from fuzz.mutation import BytesMutator, JsonMutator, StreamMutator
from fuzz.target import BrokenPromiseError, Target, Verdict, cut, pick, promise
from penstock import _protocols as protocols
from penstock import events as ev
from penstock._grammar import PARTS, Guard
from penstock._lenient_json import is_json
from penstock._transforms.citation_links import CitationLinks
from penstock._transforms.serialize import SerializeParts as Sequential
from penstock._transforms.serialize import SerializeTexts
from penstock._transforms.stop_sequences import StopAtSequences
from penstock._transforms.think_tags import ThinkTags
from penstock._transforms.tool_names import CallIdPrefix
from penstock.errors import InputError
from penstock.framing import PARSERS, WRITERS, BedrockChunks
from penstock.vscode import VSCodeStream
from tests.support import run_streams as running
from tests.support.stream_cases import Case, cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fuzz.mutation import Mutator
    from fuzz.target import Check
    from penstock.events import AnyEvent
    from penstock.framing import Frame

LONGEST_SEED = 12_000
_ENDS = frozenset(end for _, ends in PARTS.values() for end in ends)
_SILENT = (ev.Start, ev.Fault, ev.Unknown)


# ── what must hold of events ──────────────────────────────────────────────────────────────────────


def check_events(events: Sequence[AnyEvent]) -> None:
    """A stream ends in a finish or a fault; no call is given twice or with half an input. The guard checks the order."""
    called: set[tuple[int, str]] = set()
    choices: dict[int, int] = {}
    for event in events:
        if isinstance(event, ev.Start):
            called, choices = set(), {}
        elif isinstance(event, ev.CallStart):
            choices[event.index] = event.choice
        elif isinstance(event, ev.CallEnd):
            key = choices[event.index], event.id
            promise(key not in called, f"the call {event.id!r} is given twice")
            called.add(key)
            promise(event.name, "a call has no name")
            promise(
                event.form == "text" or is_json(event.json), f"the input of a call is not JSON: {event.json[:80]!r}"
            )
    promise(events, "there are no events")
    promise(isinstance(events[-1], ev.Finish | ev.Fault), f"the stream ends with {type(events[-1]).__name__}")


def summary(events: Iterable[AnyEvent], codes: Iterable[str] = ()) -> tuple[bool, frozenset[str]]:
    kinds = {type(event).__name__ for event in events}
    past = any(not isinstance(event, _SILENT) for event in events)
    return past, frozenset(kinds).union(codes)


def decoded(source: str, chunks: Sequence[bytes], options: dict[str, Any]) -> running.Run:
    parser, inner = PARSERS["auto"](), BedrockChunks()
    run = running.Run(protocols.decoder(source, **options))
    for chunk in chunks:
        run.feed(inner.feed(parser.feed([chunk])))
    run.feed(inner.feed(parser.finish()))
    return run.finish()


def check_stream(data: bytes, *, ways: Sequence[tuple[str, dict[str, Any]]]) -> Verdict:
    """Lawful events for any bytes, the same in any cutting, and every encoder takes them."""
    source, options = pick(data, ways)
    try:
        run = decoded(source, [data], options)
    except InputError as error:
        return False, type(error).__name__
    check_events(run.events)
    if pick(data, range(4), 3) == 0:
        try:
            again = decoded(source, cut(data), options).events
        except InputError as error:
            raise BrokenPromiseError("cut in pieces it is refused") from error
        promise(again == run.events, "cut in pieces it gives other events")
    if pick(data, range(4), 5) == 0:
        check_encoder(pick(data, running.targets(), 9), run.events)
    past, features = summary(run.events, run.codes)
    return past, features


def check_encoder(target: str, events: Sequence[AnyEvent]) -> list[Frame]:
    """What an encoder writes can be read again, if its protocol has a decoder."""
    frames = running.encode(target, events)
    if running.row(target).decoder:
        check_events(running.run(target, [frames]).events)
    return frames


def check_body(data: bytes, *, ways: Sequence[tuple[str, dict[str, Any]]]) -> Verdict:
    """The same for a whole answer."""
    source, options = pick(data, ways)
    events = running.decode_body(source, data, options)
    check_events(events)
    return summary(events)


# ── seeds ─────────────────────────────────────────────────────────────────────────────────────────


@cache
def seeds_of(source: str, *, streamed: bool) -> list[bytes]:
    found = [case.body for case in cases(source) if case.streamed == streamed]
    return [body for body in found if len(body) <= LONGEST_SEED] or found[:1]


def ways_of(source: str) -> list[tuple[str, dict[str, Any]]]:
    """The names and options under which the golden cases of a protocol are read."""
    made: list[tuple[str, dict[str, Any]]] = [(source, {})]
    for case in cases(source):
        if (case.source, case.options) not in made:
            made.append((case.source, case.options))
    return made


def load_stream(source: str) -> tuple[Sequence[bytes], Mutator, Check]:
    seeds = seeds_of(source, streamed=True)
    return seeds, StreamMutator(seeds), partial(check_stream, ways=ways_of(source))


def load_body(source: str) -> tuple[Sequence[bytes], Mutator, Check]:
    seeds = seeds_of(source, streamed=False)
    return seeds, JsonMutator(seeds), partial(check_body, ways=ways_of(source))


# ── events in: encoders and transforms ────────────────────────────────────────────────────────────


@cache
def event_seeds() -> list[bytes]:
    found = [case.book.read_bytes() for case in cases() if case.book.exists()]
    return [book for book in found if len(book) <= LONGEST_SEED // 2]


def events_in(data: bytes) -> list[AnyEvent]:
    """The events of a file of events, made lawful."""
    decoder, guard = protocols.decoder("events"), Guard(strict=True)
    frames = [(b"", line) for line in data.split(b"\n") if line.strip()]
    return [*guard.feed([*decoder.feed(frames), *decoder.finish()]), *guard.finish()]


def check_encode(data: bytes, *, target: str) -> Verdict:
    events = events_in(data)
    frames = check_encoder(target, events)
    writer = WRITERS[running.row(target).writes]()
    written = b"".join([*writer.feed(frames), *writer.finish()])
    promise(len(written) < 200 * (len(data) + 1000), f"{len(data)} bytes of events became {len(written)} bytes")
    body = running.row(target).body
    if body is not None:
        promise(body(frames) is not None, "no whole answer can be made of the frames")
    return summary(events)


def check_transforms(data: bytes) -> Verdict:
    """Transforms keep the grammar. Those that put parts into another order keep all events."""
    events = events_in(data)
    stages: list[Any] = [
        CitationLinks(),
        StopAtSequences(["\n", "STOP", "e"]),
        CallIdPrefix("gw-"),
        Sequential(),
        SerializeTexts(),
    ]
    stage = pick(data, stages, 4)
    out: list[AnyEvent] = [*stage.feed(events), *stage.finish()]
    if isinstance(stage, Sequential | SerializeTexts):
        promise(len(out) == len(events), f"{len(events)} events became {len(out)}")
        promise(isinstance(stage, SerializeTexts) or _most_open(out) <= 1, "two parts are open")
    else:
        guard = Guard(strict=True)
        check_events([*guard.feed(out), *guard.finish()])
    return summary(out, [type(stage).__name__])


def _most_open(events: Sequence[AnyEvent]) -> int:
    """How many parts are open at once, at most."""
    changes = [(type(event) in PARTS) - (type(event) in _ENDS) for event in events]
    return max(accumulate(changes), default=0)


def check_host_parts(data: bytes) -> Verdict:
    """The VS Code adapter never raises, whatever it is fed."""
    stream = VSCodeStream(source=pick(data, ("events", "aisdk", "openai-chat", "anthropic", "uistream"), 2))
    parts = [part for chunk in cut(data) for part in stream.feed(chunk)]
    parts += stream.finish()
    return bool(parts), (frozenset(type(part).__name__ for part in parts), stream.outcome().fault is not None)


def check_think_tags(data: bytes) -> Verdict:
    """Nothing but tags and the line breaks beside them gets lost, in any cutting."""
    text = data.decode("utf-8", "replace")
    whole, pieces = ThinkTags(), ThinkTags()
    place = len(text) // 2
    found = [*whole.feed(text), *whole.finish()]
    again = [*pieces.feed(text[:place]), *pieces.feed(text[place:]), *pieces.finish()]
    joined = [
        {kind: "".join(said for sort, said in rows if sort == kind) for kind in ("text", "reasoning")}
        for rows in (found, again)
    ]
    promise(joined[0] == joined[1], "cut in two it gives other pieces")
    promise(len("".join(joined[0].values())) <= len(text), "text was added")
    return bool(joined[0]["reasoning"]), (len(found), bool(joined[0]["text"]))


# ── the list ──────────────────────────────────────────────────────────────────────────────────────

THINK_SEEDS = (
    b"<think>\nwhy\n</think>\nyes",
    b"<thinking>a</thinking>b",
    b" <reasoning>x</reasoning>",
    b"no tag",
    b"<think>open",
)


def _load_events(check: Check) -> tuple[Sequence[bytes], Mutator, Check]:
    return event_seeds(), StreamMutator(event_seeds()), check


def _load_mixed(check: Check) -> tuple[Sequence[bytes], Mutator, Check]:
    seeds = [case.body for case in _short_cases()]
    return seeds, StreamMutator(seeds), check


def _short_cases() -> list[Case]:
    return [case for case in cases() if case.streamed and len(case.body) <= LONGEST_SEED // 3]


def targets() -> list[Target]:
    """All targets of this module."""
    event = "an event other than start, fault or unknown comes out"
    made = [Target(f"decode-{name}", event, partial(load_stream, name)) for name in running.sources()]
    whole = [name for name in running.sources() if seeds_of(name, streamed=False)]
    made += [Target(f"body-{name}", event, partial(load_body, name)) for name in whole]
    made += [
        Target(f"encode-{name}", event, partial(_load_events, partial(check_encode, target=name)))
        for name in running.targets()
    ]
    return [
        *made,
        Target("transforms", event, partial(_load_events, check_transforms)),
        Target("vscode-adapter", "a part comes out", partial(_load_mixed, check_host_parts)),
        Target("think-tags", "some of it is reasoning", lambda: (THINK_SEEDS, BytesMutator(TAGS), check_think_tags)),
    ]


TAGS = (b"<think>", b"</think>", b"<thinking>", b"</thinking>", b"\n", b"<", b"</think")
