"""`penstock chat`: a question or a conversation with any model, streamed to the terminal.

Questions are read by `chat_input`, answered by `chat_session`, and printed by `event_printer`. Lines with a slash are
run by `chat_commands`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock._cli import INTERRUPTED
from penstock._cli.chat_commands import complete_line, run_command
from penstock._cli.chat_input import ChatHistory, QuestionReader
from penstock._cli.chat_session import FAILED, ChatSession
from penstock._cli.common_options import load_provider_config, print_message
from penstock._engines.config import Account, Config
from penstock.errors import InputError

if TYPE_CHECKING:
    from argparse import Namespace

LEAVE_HINT = "Ctrl-C again, or Ctrl-D, leaves"


def run_chat(options: Namespace) -> int:
    """Asks one question, or holds a conversation."""
    question = _read_question(options)
    with asyncio.Runner() as runner:
        session = runner.run(_open_session(options))
        try:
            if question:
                return runner.run(session.ask(question))
            return _run_conversation(session, runner)
        finally:
            runner.run(session.client.aclose())


async def _open_session(options: Namespace) -> ChatSession:
    """Creates the session where the event loop runs: the client needs it."""
    return ChatSession(options, _load_chat_config(options))


def _load_chat_config(options: Namespace) -> Config:
    """Returns the configuration. In a terminal, packaged streams are played at the pace of a model."""
    config = load_provider_config(options).engine
    if not sys.stdout.isatty() or "replay" in config.providers:
        return config
    return replace(config, providers={**config.providers, "replay": Account(settings={"pace": "natural"})})


def _read_question(options: Namespace) -> str:
    """Returns the piped input, followed by the words of the command line."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read().strip()
    return f"{piped}\n\n{' '.join(options.question)}".strip()


def _run_conversation(session: ChatSession, runner: asyncio.Runner) -> int:
    """Answers questions until the user leaves. Returns the exit code of the last answer."""
    history = None if session.options.no_history else ChatHistory.of(os.environ)
    reader = QuestionReader(history, complete_line)
    code, interrupted = 0, False
    while True:
        try:
            question = reader.read()
        except EOFError:
            print(file=sys.stderr)
            return code
        except KeyboardInterrupt:
            print(file=sys.stderr)
            if interrupted:
                return INTERRUPTED
            interrupted = True
            print_message(LEAVE_HINT)
            continue
        interrupted = False
        if question.startswith("/") and not question.startswith("//"):
            if run_command(session, question):
                return code
        elif question:
            code, interrupted = _answer(session, runner, question.removeprefix("/") if question[0] == "/" else question)


def _answer(session: ChatSession, runner: asyncio.Runner, question: str) -> tuple[int, bool]:
    """Answers one question. Returns the exit code, and whether Ctrl-C stopped the answer."""
    try:
        code = runner.run(session.ask(question))
    except KeyboardInterrupt:
        session.printer.end_answer()
        code = INTERRUPTED
    except InputError as error:
        print_message(str(error))
        return FAILED, False
    if code == INTERRUPTED:
        print_message(f"stopped; {LEAVE_HINT}")
    return code, code == INTERRUPTED
