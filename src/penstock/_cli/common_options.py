"""What several commands share: their options, the input file or standard input, the configuration, messages.

Imports only the standard library at first, so that `--help` is quick. Unusable input raises `InputError` or `OSError`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tomllib
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._printable_text import printable

if TYPE_CHECKING:
    from argparse import Action, ArgumentParser, Namespace
    from collections.abc import Callable, Generator, Iterable, Iterator
    from io import BufferedReader

    from penstock._diagnostics import Diagnostic
    from penstock._gateway.config import GatewayConfig

READ_BYTES = 64 * 1024
CONFIG_HELP = (
    "the configuration (default: the file of PENSTOCK_CONFIG, else ./penstock.toml if it is harmless or trusted)"
)
_OPTION_TYPES: dict[str, Any] = {"int": int, "float": float, "Path": Path}


def add_arguments(parser: ArgumentParser, command: str) -> list[Action]:
    """Adds the options of `commands/COMMAND.toml` to the parser and returns them. One that is only text is a flag."""
    rows = tomllib.loads(files("penstock._cli").joinpath(f"commands/{command}.toml").read_text(encoding="utf-8"))
    added = add_arguments(parser, rows["include"]) if "include" in rows else []
    parser.epilog = rows.get("epilog")
    for title, options in {"": rows["options"], **rows.get("groups", {})}.items():
        group = parser.add_argument_group(title) if title else parser
        for names, row in options.items():
            settings: dict[str, Any] = {"action": "store_true", "help": row} if isinstance(row, str) else row
            if "type" in settings:
                settings["type"] = _OPTION_TYPES[settings["type"]]
            for key in settings.keys() & {"help", "default"}:
                settings[key] = _fill_in(settings[key])
            completer = settings.pop("complete", "")
            action = group.add_argument(*names.split(), **settings)
            vars(action)["completer"] = completer  # what `penstock completion` offers for its values
            added.append(action)
    return added


def _fill_in(text: Any) -> Any:
    """Replaces `{protocols}`, `{frame_limit}` and the like in a help text or a default."""
    if text == "{config_help}":
        return CONFIG_HELP
    if not isinstance(text, str) or "{" not in text:
        return text
    from penstock._framing.base import LIMIT
    from penstock._protocols import MODULES

    return text.format(protocols=", ".join(sorted(MODULES)), frame_limit=LIMIT, frame_mebibytes=LIMIT >> 20)


@contextmanager
def open_input(name: str) -> Generator[BufferedReader]:
    """Opens the named file, or standard input for `-`."""
    if name == "-" and sys.stdin.isatty():
        print("penstock: reading from the terminal; Ctrl-D ends it", file=sys.stderr)
    with open(sys.stdin.fileno() if name == "-" else name, "rb", closefd=name != "-") as file:
        yield file


def read_chunks(file: BufferedReader) -> Iterator[bytes]:
    """Yields what can be read as soon as it is there. Raises `InputError` if the input is empty."""
    chunk = file.read1(READ_BYTES)
    if not chunk:
        from penstock.errors import InputError

        raise InputError("the input is empty")
    while chunk:
        yield chunk
        chunk = file.read1(READ_BYTES)


def read_input(name: str) -> bytes:
    """Returns all of the named file, or of standard input for `-`."""
    with open_input(name) as file:
        return b"".join(read_chunks(file))


def is_stream(events: Iterable[Any], findings: Iterable[Diagnostic]) -> bool:
    """True if the input is a stream. Garbage makes no events except the fault at its end."""
    from penstock.events import Fault, Start

    garbage = any(row.code == "malformed" for row in findings)
    return not garbage or any(
        event.kind != "truncated" if type(event) is Fault else type(event) is not Start for event in events
    )


def read_codec_options(options: Namespace, source: str) -> dict[str, Any]:
    """Returns the framing and codec options of the command line, as keyword arguments of a bridge."""
    from penstock._protocols import protocol

    decoder = None if source == "auto" else protocol(source).decoder
    return {
        "framing": options.framing,
        "limit": options.limit,
        "source_options": _parse_codec_options(options.source_options, decoder),
        "target_options": _parse_codec_options(options.target_options, protocol(options.target).encoder),
    }


def _parse_codec_options(pairs: Iterable[str], codec: Callable[..., Any] | None) -> dict[str, Any]:
    """Reads `key=value` pairs into keyword arguments of the types that the codec declares."""
    from penstock._cli.suggestions import suggest
    from penstock.errors import InputError

    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"an option is KEY=VALUE, not {pair!r}")
        values[key.replace("-", "_")] = value
    types = _option_types(codec) if values else {}
    for key, value in values.items():
        if key not in types:
            known = suggest(key, types) or f"; there is: {', '.join(sorted(types)) or 'none'}"
            raise InputError(f"unknown option {key!r}{known}")
        values[key] = _convert_option(key, value, types[key])
    return values


def _option_types(codec: Callable[..., Any] | None) -> dict[str, Any]:
    """Returns the keyword arguments of a codec and their types."""
    import inspect
    from typing import get_type_hints

    if codec is None:
        return {}
    init = codec.__init__ if isinstance(codec, type) else codec  # type: ignore[misc]
    names = [name for name, row in inspect.signature(codec).parameters.items() if row.kind is row.KEYWORD_ONLY]
    try:
        hints = get_type_hints(init)
    except NameError:  # a type that is imported for type checkers only
        known: dict[str, Any] = {"bool": bool, "int": int, "int | None": int | None, "str | None": str}
        known["Collection[str]"] = tuple[str, ...]
        hints = {name: known.get(str(hint), Any) for name, hint in init.__annotations__.items()}
    return {name: hints.get(name, Any) for name in names}


def _convert_option(key: str, value: str, type: Any) -> Any:
    import msgspec

    from penstock.errors import InputError

    try:
        return msgspec.convert(value.split(",") if type == tuple[str, ...] else value, type, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"option {key}={value}: {error}") from error
    except TypeError as error:
        raise InputError(f"option {key!r} cannot be given on the command line") from error


_message_format = {"json": False}


def set_message_format(*, as_json: bool) -> None:
    """Decides whether messages are plain lines, or JSON objects for programs."""
    _message_format["json"] = as_json


def print_message(text: str) -> None:
    """Prints a message for the user to standard error; with `--json`, as an object with the key `note`."""
    if _message_format["json"]:
        print_report({"note": text})
    else:
        print(f"penstock: {printable(text)}", file=sys.stderr)


def print_report(value: Any) -> None:
    """Prints a value as one line of JSON to standard error, beside the data on standard output."""
    import msgspec

    print(msgspec.json.encode(value).decode(), file=sys.stderr)


def print_error(error: Exception, exit_code: int, hint: str = "") -> None:
    """Prints an error, and what may help; with `--json`, as an object with the key `error`."""
    if _message_format["json"]:
        found = {"type": type(error).__name__, "message": str(error), "exit_code": exit_code}
        print_report({"error": {**found, "hint": hint} if hint else found})
        return
    print_message(" ".join(str(error).split()))
    if hint:
        print(f"  {printable(hint)}", file=sys.stderr)


def load_config(options: Namespace) -> GatewayConfig:
    """Reads the configuration that the command line, the environment or the current folder names."""
    from penstock._gateway.config import load_config

    return load_config(options.config, os.environ)


def load_provider_config(options: Namespace) -> GatewayConfig:
    """Reads the configuration and the providers that an admin added."""
    from penstock._gateway.provider_layers import add_custom_providers

    return add_custom_providers(load_config(options))


PROGRAM = "penstock"


def find_command() -> str:
    """Returns `penstock` if a shell finds this program by that name, else the path that started it.

    `make serve` starts `.venv/bin/penstock`, which is usually not in the PATH of the user's shell.
    """
    started, installed = Path(sys.argv[0]), shutil.which(PROGRAM)
    if getattr(sys, "frozen", False):  # the self-contained program
        return _relative_path(sys.executable)
    if started.name == "__main__.py" and started.parent.name == PROGRAM:
        return PROGRAM if installed else f"{_relative_path(sys.executable)} -m {PROGRAM}"
    if started.stem != PROGRAM or not started.exists():  # called by another program, or by its name
        return PROGRAM
    return PROGRAM if installed and Path(installed).resolve() == started.resolve() else _relative_path(sys.argv[0])


def _relative_path(path: str) -> str:
    """Returns the path, quoted for a shell; relative if it is in the current folder. Links are not followed."""
    absolute = os.path.abspath(path)  # noqa: PTH100 — `Path.resolve` would leave a virtual environment by its links
    folder = os.getcwd()  # noqa: PTH109
    inside = os.path.commonpath([absolute, folder]) == folder
    return shlex.quote(os.path.relpath(absolute, folder) if inside else absolute)
