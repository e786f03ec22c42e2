"""`penstock chat`: a question or a conversation with any model, streamed to the terminal.

Leans on `penstock.client`. Thinking is dimmed, tools are shown, usage comes at the end; none of that goes to a pipe.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from penstock._cli.common_options import add_config_option, load_config

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from penstock._cli.event_printer import EventPrinter
    from penstock._client.api import Client
    from penstock._client.stream import Stream
    from penstock._engines.config import Config

EPILOG = """\
examples:
  penstock chat replay/agent "What is in this folder?"
  penstock chat anthropic/claude-sonnet-4-5 --system "Answer in verse."
  git diff | penstock chat openai/gpt-5 "Review this." --max-output 500

Without a question it asks for one after the other until an empty line or Ctrl-D. replay/… are packaged streams: no key,
no network. Exit code: 0; 1 where the model could not be asked; 2 for input that is no use.
"""
FAILED = 1


def add_arguments(parser: ArgumentParser) -> None:
    """The command's options."""
    parser.epilog = EPILOG
    parser.add_argument("model", metavar="MODEL", help="an alias, provider/model, or the bare name of a model")
    parser.add_argument("question", metavar="QUESTION", nargs="*", help="what to ask; piped input is put before it")
    parser.add_argument("--system", metavar="TEXT", default="", help="the system prompt")
    parser.add_argument("--max-output", metavar="N", type=int, help="tokens to write at most")
    parser.add_argument("--temperature", metavar="T", type=float, help="how freely to choose words")
    parser.add_argument("--effort", metavar="WORD", default="", help="how hard to think: low, medium, high …")
    parser.add_argument("--engine", choices=("native", "sdk"), default="", help="in place of what the flags say")
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="the canonical events, one a line")
    parser.add_argument("-v", "--verbose", action="store_true", help="show how the answer came to be")


def run(options: Namespace) -> int:
    """One question, or a conversation."""
    import asyncio

    return asyncio.run(_run_chat(options))


async def _run_chat(options: Namespace) -> int:
    from penstock._cli.event_printer import EventPrinter
    from penstock._client.api import Client

    speech = EventPrinter(sys.stdout, json=options.json)
    async with Client(_load_chat_config(options)) as client:
        question = _read_question(options)
        if question:
            return await _ask_model(client, options, speech, [*_system_messages(options), _user_message(question)])
        return await _run_conversation(client, options, speech)


def _load_chat_config(options: Namespace) -> Config:
    """The configuration. Packaged streams are played to a person at the pace of a model."""
    from msgspec.structs import replace

    from penstock._engines.config import Account

    config = load_config(options).engine
    if not sys.stdout.isatty() or "replay" in config.providers:
        return config
    return replace(config, providers={**config.providers, "replay": Account(settings={"pace": "natural"})})


def _read_question(options: Namespace) -> str:
    """The words of the command line, behind what was piped in."""
    said = " ".join(options.question)
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read().strip()
    return f"{piped}\n\n{said}".strip()


def _system_messages(options: Namespace) -> list[dict[str, Any]]:
    return [{"role": "system", "content": options.system}] if options.system else []


def _user_message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def _run_conversation(client: Client, options: Namespace, speech: EventPrinter) -> int:
    import asyncio

    said = _system_messages(options)
    code = 0
    while True:
        try:
            question = (await asyncio.to_thread(input, "> ")).strip()
        except EOFError:
            question = ""
        if not question:
            return code
        said.append(_user_message(question))
        code = await _ask_model(client, options, speech, said)
        if code == 0:
            said.append({"role": "assistant", "content": speech.text or "(nothing)"})
        else:
            said.pop()


async def _ask_model(client: Client, options: Namespace, speech: EventPrinter, said: list[dict[str, Any]]) -> int:
    from penstock.errors import ProviderError

    settings = {
        "max_completion_tokens": options.max_output,
        "temperature": options.temperature,
        "reasoning_effort": options.effort or None,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    stream = client.chat_stream(options.model, said, engine=options.engine, **given)
    try:
        async for batch in stream.batches():
            speech.print_events(batch)
    except ProviderError as error:
        speech.end_line()
        print(f"penstock: {error}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        return FAILED
    _print_footer(stream, speech, verbose=options.verbose)
    return FAILED if speech.broken else 0


def _print_footer(stream: Stream, speech: EventPrinter, *, verbose: bool) -> None:
    speech.end_line()
    reply = stream.reply
    if reply is None or speech.json:
        return
    speech.print_note(f"{reply.provider}/{reply.model}, {reply.engine}: {speech.format_usage(stream.usage)}")
    if verbose:
        for line in reply.record.lines():
            speech.print_note(line)
        for row in reply.diagnostics:
            speech.print_note(f"{row.code}: {row.message}")
