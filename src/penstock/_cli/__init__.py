"""The command line: `main` finds the command and turns errors into one line and an exit code.

A command is a module of this package. `add_arguments(parser)` describes its options; `run(options) -> int` does the
work and returns the exit code. Only the requested command is imported, so that help is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from penstock._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COMMANDS = {
    "translate": "turn one protocol's stream into another's",
    "convert": "turn one protocol's request into another's",
    "inspect": "show a stream: its frames, what they mean, what comes of them",
    "tokens": "count a request's tokens, message by message",
    "chat": "ask any model, and watch it answer",
    "models": "list models: limits, prices, what they can do",
    "providers": "list providers: what they speak, and whose key is there",
    "doctor": "tell what is configured and reachable, or explain a saved error",
    "serve": "the gateway: any client to any model, and packaged streams with no key and no network",
    "setup": "store a provider's key, or point a coding agent at the gateway",
    "keys": "make, list, revoke and reset gateway keys",
    "trust": "let a penstock.toml of this folder decide where keys and data go",
    "usage": "what was asked, and what it cost, from the gateway's journal",
    "record": "save a stream with its times, secrets removed",
    "replay": "play recordings back, to a pipe or as a server",
}
BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141  # the last two as a shell reports SIGINT and SIGPIPE
EXAMPLES = """\
examples:
  penstock translate --from anthropic --to openai-chat answer.sse
  curl -sN … | penstock translate --to vscode
  penstock convert --from openai-chat --to anthropic request.json
  penstock inspect answer.sse

`penstock COMMAND --help` tells more about each.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and give its exit code: 2 for input that cannot be used."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run_command(given)
        sys.stdout.flush()  # here, where a reader that went away is still expected
    except BrokenPipeError:
        # Whoever read our output has had enough. What is still buffered must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if not _is_user_error(error):
            raise
        print(f"penstock: {_error_line(error)}", file=sys.stderr)
        return BAD_INPUT
    return code


class _ArgumentParser(argparse.ArgumentParser):
    """Says what is wrong in one line; the usage is a `--help` away."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _run_command(given: list[str]) -> int:
    parser, run = _create_parser(next((word for word in given if not word.startswith("-")), ""))
    try:
        options = parser.parse_args(given)
    except SystemExit as left:  # argparse has said what there is to say
        return left.code if isinstance(left.code, int) else BAD_INPUT
    if run is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    return run(options)


def _create_parser(wanted: str) -> tuple[_ArgumentParser, Callable[[argparse.Namespace], int] | None]:
    """The parser with all commands, and the wanted one's function: only its module is imported."""
    form = argparse.RawDescriptionHelpFormatter
    about = "Any model's stream in, exactly what a client expects out."
    parser = _ArgumentParser(prog="penstock", description=about, epilog=EXAMPLES, formatter_class=form)
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    run = None
    for name, does in COMMANDS.items():
        command = commands.add_parser(
            name, help=does, description=f"{does[0].upper()}{does[1:]}.", formatter_class=form
        )
        if name == wanted:
            module = import_module(f"{__name__}.{name}")
            module.add_arguments(command)
            run = module.run
    return parser, run


def _is_user_error(error: Exception) -> bool:
    """Whether the error is about what we were given rather than about us."""
    if isinstance(error, OSError):
        return True
    from penstock.errors import GrammarError, PenstockError

    return isinstance(error, PenstockError) and not isinstance(error, GrammarError)


def _error_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__
