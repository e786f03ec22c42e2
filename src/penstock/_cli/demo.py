"""`penstock demo`: a stream, a broken stream, a tool call and the inspector, with no key and no network.

In a terminal the streams are shown at the speed of a model. A pipe gets the same text at once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock._cli import demo_scenes as scenes
from penstock._cli.demo_screen import THINKING_PAUSE, WORD_PAUSE, DemoScreen
from penstock._cli.terminal import replace_unencodable, wants_color

if TYPE_CHECKING:
    from argparse import Namespace


def run_demo(options: Namespace) -> int:
    """Shows the parts one after the other. Returns the exit code."""
    replace_unencodable()
    screen = None if options.json else _create_screen(options)
    if screen is None:
        _print_json_scenes()
    else:
        _show_scenes(screen)
    if not options.no_serve:
        from penstock._cli.demo_gateway import serve_demo

        return serve_demo(options, screen)
    if screen is not None:
        _show_command(screen)
    return 0


def _create_screen(options: Namespace) -> DemoScreen:
    is_paced = sys.stdout.isatty() and not options.fast
    return DemoScreen(sys.stdout, color=wants_color(), speed=1.0 if is_paced else 0.0)


def _show_scenes(screen: DemoScreen) -> None:
    screen.print_line("Packaged streams: no key, no network. Every line below was computed just now.", "dim")
    _show_complete_stream(screen, scenes.complete_stream())
    _show_broken_stream(screen, scenes.broken_stream())
    _show_tool_call(screen, scenes.tool_call())


def _show_complete_stream(screen: DemoScreen, stream: scenes.DemoStream) -> None:
    screen.print_title(1)
    screen.print_line(
        f"  {stream.bytes:,} bytes of {stream.protocol} in {stream.chunks} chunks, cut inside of words and of JSON:"
    )
    thinking = [event.text for event in stream.events if isinstance(event, ev.ReasoningDelta)]
    screen.print_stream("thinking", thinking, "dim", THINKING_PAUSE)
    screen.print_stream("text", [event.text for event in stream.events if isinstance(event, ev.TextDelta)])
    counts = " · ".join(f"{client.protocol} {client.frames}" for client in stream.clients)
    screen.print_line(f"{counts} frames", "green", "sent on as")


def _show_broken_stream(screen: DemoScreen, stream: scenes.DemoStream) -> None:
    screen.print_title(2)
    screen.print_line(
        f"  {stream.bytes:,} bytes of {stream.protocol}; then the connection ends, in the middle of a frame:"
    )
    screen.print_stream("text", [event.text for event in stream.events if isinstance(event, ev.TextDelta)])
    if stream.fault is not None:
        screen.print_line(f"{stream.fault.kind}: {stream.fault.message}", "red", "fault")
    screen.print_line("  Each client gets an error last, in its own protocol, and no end that looks like success:")
    for client in stream.clients:
        screen.print_line(client.last, "red", client.protocol)


def _show_tool_call(screen: DemoScreen, demo: scenes.ToolCallDemo) -> None:
    screen.print_title(3)
    pieces = [event.json for event in demo.whole.events if isinstance(event, ev.CallDelta)]
    screen.print_line(
        f"  {demo.whole.protocol} sends the input in {len(pieces)} pieces, then {demo.repeats} times as a whole:"
    )
    screen.print_stream("pieces", [pieces[0], *(f" · {piece}" for piece in pieces[1:])], pause=6 * WORD_PAUSE)
    for name, json in demo.whole.calls:
        screen.print_line(f"{name}({json})", "cyan", "call")
    screen.print_line(f"the tool ran {_times(demo.runs)}", "green", "result")
    screen.print_line("  The same stream, cut off in the middle of the input:")
    for event in demo.cut.events:
        if isinstance(event, ev.CallCut):
            screen.print_line(f"{event.name}({event.json}", "yellow", "call, cut")
    screen.print_line(f"the tool ran {_times(demo.runs_of_cut)}", "green", "result")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _show_command(screen: DemoScreen) -> None:
    screen.print_title(4)
    screen.print_line("  penstock demo, without --no-serve, starts a gateway here and prints the inspector's link.")


def _print_json_scenes() -> None:
    stream, broken, call = scenes.complete_stream(), scenes.broken_stream(), scenes.tool_call()
    _print_json_scene("stream", stream)
    _print_json_scene("broken", broken)
    more = {"repeats": call.repeats, "runs": call.runs, "runs_of_cut": call.runs_of_cut}
    calls = [{"name": name, "input": json} for name, json in call.whole.calls]
    _print_json_scene("tool-call", call.whole, calls=calls, **more)


def _print_json_scene(scene: str, stream: scenes.DemoStream, **more: Any) -> None:
    value = {
        "scene": scene,
        "protocol": stream.protocol,
        "bytes": stream.bytes,
        "chunks": stream.chunks,
        "text": stream.text,
        "fault": stream.fault,
        "clients": stream.clients,
        **more,
    }
    print(msgspec.json.encode(value).decode(), flush=True)
