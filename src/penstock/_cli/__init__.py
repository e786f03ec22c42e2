"""The command line: `main` finds the command and turns errors into one line and an exit code.

A command is a function `run_COMMAND(options)` that returns the exit code; `commands/COMMAND.toml` has its options and
examples. Only the module of the requested command is imported, so that help is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from penstock._printable_text import printable
from penstock._version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMANDS = {  # the module with the function `run_COMMAND`, and what the command does
    "demo": ("demo", "see a stream, a broken stream, a tool call and the inspector, with no key and no network"),
    "translate": ("translate", "turn one protocol's stream into another's"),
    "convert": ("translate", "turn one protocol's request into another's"),
    "inspect": ("inspect", "show a stream: its frames, their events, and the output for a client"),
    "tokens": ("tokens", "count a request's tokens, message by message"),
    "chat": ("chat", "ask any model, and watch it answer"),
    "models": ("models_and_providers", "list models: limits, prices, what they can do"),
    "providers": ("models_and_providers", "list providers: their protocols, and which have a key"),
    "doctor": ("doctor", "tell what is configured and reachable, or explain a saved error"),
    "init": ("init", "write a commented penstock.toml, by questions or by options"),
    "serve": ("serve", "the gateway: any client to any model, and packaged streams with no key and no network"),
    "setup": ("setup", "store a provider's key, or point a coding agent at the gateway"),
    "keys": ("keys_and_teams", "make, list, edit, rotate, revoke and reset gateway keys"),
    "teams": ("keys_and_teams", "make, list, edit and remove teams of gateway keys"),
    "trust": ("trust", "let a penstock.toml of this folder decide where keys and data go"),
    "usage": ("usage", "show requests, tokens and costs from the gateway's journal"),
    "record": ("recordings", "save a stream with its times, secrets removed"),
    "replay": ("recordings", "play recordings back, to a pipe or as a server"),
    "completion": ("completion", "print a script for your shell that completes commands and options"),
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
    """Runs one command line. Returns its exit code: 2 for input that cannot be used."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _run_command(arguments)
        sys.stdout.flush()  # here, where a closed pipe is handled
    except BrokenPipeError:
        # The reader of our output closed the pipe. What is still buffered must not be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if not _is_user_error(error):
            raise
        _print_error("penstock", _error_line(error), kind=type(error).__name__, as_json=wants_json(arguments))
        return BAD_INPUT
    return code


def wants_json(arguments: Sequence[str]) -> bool:
    """True if a command line asks for JSON. Its errors are then JSON too."""
    return "--json" in arguments


def _print_error(program: str, message: str, *, kind: str, as_json: bool) -> None:
    if not as_json:
        print(f"{program}: {printable(message)}", file=sys.stderr)
        return
    import json

    print(json.dumps({"error": {"type": kind, "message": message, "exit_code": BAD_INPUT}}), file=sys.stderr)


class UsageError(Exception):
    """A command line that cannot be parsed. The message tells where the help is."""

    def __init__(self, program: str, message: str) -> None:
        super().__init__(message)
        self.program = program


class CommandParser(argparse.ArgumentParser):
    """Reports an error in one line, with a suggestion and without the usage text. `arguments`: those of the command."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.arguments: list[argparse.Action] = []

    def error(self, message: str) -> NoReturn:
        raise UsageError(self.prog, f"{message} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuses a value that is not among the choices, and names the closest one."""
        if action.choices is None or value in action.choices:
            return
        from penstock._cli.suggestions import suggest

        known = [str(one) for one in action.choices]
        hint = suggest(str(value), known)
        if action.dest == "command":
            self.error(f"there is no command {value!r}{hint}")
        hint = hint or f" (choose from {', '.join(known)})"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")


def _run_command(arguments: list[str]) -> int:
    parser, commands = create_parser(next((word for word in arguments if not word.startswith("-")), ""))
    # What stands behind `completion … --words` is not ours to read: argparse would drop a `--` that is to be completed.
    asked = arguments[:1] == ["completion"] and "--words" in arguments
    cut = arguments.index("--words") + 1 if asked else len(arguments)
    try:
        options, unknown = parser.parse_known_args(arguments[:cut])
        if asked:
            options.words = arguments[cut:]
        if unknown:
            _take_words(commands[options.command] if options.command else parser, options, unknown)
    except UsageError as error:
        _print_error(error.program, str(error), kind="UsageError", as_json=wants_json(arguments))
        return BAD_INPUT
    except SystemExit as stop:  # --help and --version
        return stop.code if isinstance(stop.code, int) else BAD_INPUT
    if options.command is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    _set_message_format(as_json=getattr(options, "json", False))
    module = import_module(f"{__name__}.{COMMANDS[options.command][0]}")
    return getattr(module, f"run_{options.command}")(options)  # type: ignore[no-any-return]


def _set_message_format(*, as_json: bool) -> None:
    from penstock._cli.common_options import set_message_format

    set_message_format(as_json=as_json)


def _take_words(parser: CommandParser, options: argparse.Namespace, unknown: list[str]) -> None:
    """Adds words after an option to an argument that takes several: argparse takes only those before the first option.

    Raises for options and words that a command does not take. Names the closest option.
    """
    several = [action for action in parser.arguments if action.nargs == "*" and not action.option_strings]
    if several and not any(word.startswith("-") for word in unknown):
        setattr(options, several[0].dest, [*getattr(options, several[0].dest), *unknown])
        return
    from penstock._cli.suggestions import suggest

    option = next((word[2:].partition("=")[0] for word in unknown if word.startswith("--")), "")
    known = [name[2:] for action in parser.arguments for name in action.option_strings if name.startswith("--")]
    hint = suggest(option, known).replace("did you mean ", "did you mean --") if option else ""
    parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")


def create_parser(requested: str) -> tuple[CommandParser, Mapping[str, CommandParser]]:
    """Returns the parser, and those of the commands. Only the requested one gets its options, which saves time."""
    form = argparse.RawDescriptionHelpFormatter
    about = "Any model's stream in, exactly what a client expects out."
    parser = CommandParser(prog="penstock", description=about, epilog=EXAMPLES, formatter_class=form)
    parser.add_argument("--version", action="version", version=f"penstock {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, (_, does) in COMMANDS.items():
        command = commands.add_parser(
            name, help=does, description=f"{does[0].upper()}{does[1:]}.", formatter_class=form
        )
        if name == requested:
            from penstock._cli.common_options import add_arguments

            command.arguments = add_arguments(command, name)
    return parser, commands.choices


def _is_user_error(error: Exception) -> bool:
    """True if the error is about the input and not a bug of ours."""
    if isinstance(error, OSError):
        return True
    from penstock.errors import GrammarError, PenstockError

    return isinstance(error, PenstockError) and not isinstance(error, GrammarError)


def _error_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__
