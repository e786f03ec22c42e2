"""`penstock chat`: a question or a conversation with any model, streamed to the terminal.

A terminal shows thinking dimmed, tool calls and sources on lines of their own, and the usage at the end. A pipe gets
only the text; the rest goes to standard error.
"""

from __future__ import annotations

import asyncio
import sys
from typing import IO, TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock._cli.common_options import load_config, print_message
from penstock._cli.terminal import printable, wants_color
from penstock._client.api import Client
from penstock._engines.config import Account, Config
from penstock.errors import ProviderError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from penstock._client.results import Stream

FAILED = 1


def run_chat(options: Namespace) -> int:
    """Asks one question, or holds a conversation."""
    return asyncio.run(_run_chat(options))


async def _run_chat(options: Namespace) -> int:
    printer = EventPrinter(sys.stdout, json=options.json)
    messages = [{"role": "system", "content": options.system}] if options.system else []
    async with Client(_load_chat_config(options)) as client:
        if question := _read_question(options):
            return await _ask_model(client, options, printer, [*messages, {"role": "user", "content": question}])
        return await _run_conversation(client, options, printer, messages)


def _load_chat_config(options: Namespace) -> Config:
    """Returns the configuration. In a terminal, packaged streams are played at the pace of a model."""
    config = load_config(options).engine
    if not sys.stdout.isatty() or "replay" in config.providers:
        return config
    return replace(config, providers={**config.providers, "replay": Account(settings={"pace": "natural"})})


def _read_question(options: Namespace) -> str:
    """Returns the piped input, followed by the words of the command line."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read().strip()
    return f"{piped}\n\n{' '.join(options.question)}".strip()


async def _run_conversation(
    client: Client, options: Namespace, printer: EventPrinter, messages: list[dict[str, Any]]
) -> int:
    code = 0
    while True:
        try:
            question = (await asyncio.to_thread(input, "> ")).strip()
        except EOFError:
            question = ""
        if not question:
            return code
        messages.append({"role": "user", "content": question})
        code = await _ask_model(client, options, printer, messages)
        if code == 0:
            messages.append({"role": "assistant", "content": printer.text or "(nothing)"})
        else:
            messages.pop()


async def _ask_model(client: Client, options: Namespace, printer: EventPrinter, messages: list[dict[str, Any]]) -> int:
    settings = {
        "max_completion_tokens": options.max_output,
        "temperature": options.temperature,
        "reasoning_effort": options.effort or None,
    }
    known = {name: value for name, value in settings.items() if value is not None}
    stream = client.chat_stream(options.model, messages, engine=options.engine, **known)
    try:
        async for batch in stream.batches():
            printer.print_events(batch)
    except ProviderError as error:
        printer.end_line()
        print_message(str(error))
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        return FAILED
    _print_footer(stream, printer, verbose=options.verbose)
    return FAILED if printer.failed else 0


def _print_footer(stream: Stream, printer: EventPrinter, *, verbose: bool) -> None:
    printer.end_line()
    reply = stream.reply
    if reply is None or printer.json:
        return
    lines = [f"{reply.provider}/{reply.model}, {reply.engine}: {_format_usage(stream.usage)}"]
    if verbose:
        lines += [*reply.record.lines(), *(f"{row.code}: {row.message}" for row in reply.diagnostics)]
    for line in lines:
        print(_style_text(printable(line), "dim", on=wants_color(sys.stderr)), file=sys.stderr)


def _format_usage(usage: ev.Usage | None) -> str:
    names = {"in": "input", "out": "output", "cached": "cached", "written": "written", "reasoning": "reasoning"}
    counts = {label: getattr(usage, name, None) for label, name in names.items()}
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count is not None) or "usage unknown"


_CODES = {"dim": 2, "red": 31, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}  # ANSI
_MAX_INPUT = 400  # characters of a call's input that are shown


class EventPrinter:
    """Prints the events of one answer after another. `text`: the text of the last answer."""

    def __init__(self, output: IO[str], *, json: bool = False) -> None:
        self._output = output
        self.json = json
        self._color = wants_color(output)
        self._open_kind = ""  # the kind of part whose line is not ended
        self.text = ""
        self.failed = False

    def print_events(self, events: Sequence[ev.AnyEvent]) -> None:
        """Prints a batch and flushes the output."""
        for event in events:
            if self.json:
                self._output.write(msgspec.json.encode(event).decode() + "\n")
                self.failed = self.failed or isinstance(event, ev.Fault)
            else:
                self._print_event(event)
        self._output.flush()

    def end_line(self) -> None:
        """Ends the line that is open."""
        if self._open_kind:
            self._output.write("\n")
            self._open_kind = ""
        self._output.flush()

    def _print_event(self, event: ev.AnyEvent) -> None:
        """Prints one event. Framing events and deltas of parts that end with their whole content are not shown."""
        match event:
            case ev.Start():
                self.text, self.failed = "", False
            case ev.TextDelta() | ev.RefusalDelta():
                self._switch_kind("text")
                self.text += event.text
                self._output.write(_printable_text(event.text))
            case ev.ReasoningDelta() if self._color:
                self._switch_kind("thinking")
                self._output.write(_style_text(_printable_text(event.text), "dim", on=True))
            case ev.CallEnd() | ev.CallCut():
                runner = "" if event.by == "client" else f", run by the {event.by}"
                cut = " (cut off: not to be run)" if isinstance(event, ev.CallCut) else ""
                shown = printable(event.json)[:_MAX_INPUT]
                self._print_aside(f"tool {printable(event.name)}({shown}){runner}{cut}", "cyan")
            case ev.Source():
                title = f"source {printable(event.title or '')} {printable(event.url)}"
                self._print_aside(title.replace("  ", " "), "blue")
            case ev.FileStart():
                self._print_aside(f"file of type {printable(event.media)} {printable(event.url)}".rstrip(), "magenta")
            case ev.Finish() if event.reason not in {"stop", "calls"}:
                self._print_aside(f"ended: {event.reason}", "yellow")
            case ev.Fault():
                self.failed = True
                self._print_aside(f"broken off: {event.kind}: {printable(event.message)}", "red")
            case _:
                pass

    def _switch_kind(self, kind: str) -> None:
        if self._open_kind and self._open_kind != kind:
            self.end_line()
        self._open_kind = kind

    def _print_aside(self, text: str, style: str) -> None:
        """Prints a line that is not part of the text: to the terminal if there is one, else to standard error."""
        self.end_line()
        output = self._output if self._color or self._output.isatty() else sys.stderr
        color = self._color if output is self._output else wants_color(sys.stderr)
        print(_style_text(text, style, on=color), file=output)


def _printable_text(text: str) -> str:
    """Returns the text without control characters that a terminal would obey, except line breaks and tabs."""
    return "".join(char if char.isprintable() or char in "\n\t" else printable(char) for char in text)


def _style_text(text: str, style: str, *, on: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if on and text else text
