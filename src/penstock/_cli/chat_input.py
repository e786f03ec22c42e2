"""Reads questions from the terminal: line editing and history by readline, several lines, completion of commands.

The history is a file in the data folder that only its owner can read. It holds the last questions, secrets removed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._cli.common_options import print_message
from penstock._redaction import redact
from penstock._store import provider_keys
from penstock._store.data_folder import data_folder
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

HISTORY_FILE = "chat-history.jsonl"
HISTORY_VARIABLE = "PENSTOCK_CHAT_HISTORY"  # "off" keeps no history
MAX_ENTRIES = 1_000
MAX_ENTRY = 10_000  # characters; longer questions are not kept
PROMPT, MORE = "> ", ". "  # before a question, before its further lines
QUOTES = '"""'  # begins and ends a question of several lines


class ChatHistory:
    """The last questions, one JSON text a line. Several chats may write at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, env: Mapping[str, str]) -> ChatHistory | None:
        """Returns the history of the data folder; None if it is switched off."""
        if env.get(HISTORY_VARIABLE, "").lower() in {"off", "no", "0", "false"}:
            return None
        return cls(data_folder(env) / HISTORY_FILE)

    def read(self) -> list[str]:
        """Returns the questions, the oldest first. Lines that cannot be read are left out."""
        try:
            lines = self.path.read_bytes().splitlines()
        except OSError:
            return []
        return [text for line in lines[-MAX_ENTRIES:] if (text := _decode_entry(line))]

    def add(self, question: str) -> None:
        """Adds a question, unless it is very long or begins with a space. The oldest one goes."""
        if len(question) > MAX_ENTRY or question.startswith(" "):
            return
        try:
            with provider_keys.lock_file(self.path):
                entries = [*self.read(), redact(question)][-MAX_ENTRIES:]
                data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
                provider_keys.replace_file(self.path, data)
        except (OSError, InputError) as error:
            print_message(f"the history cannot be written: {error}")


def _decode_entry(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


class QuestionReader:
    """Asks for questions. `complete` returns the words that a line may continue with."""

    def __init__(self, history: ChatHistory | None, complete: Callable[[str], Iterable[str]]) -> None:
        self._history = history
        self._complete = complete
        self._matches: list[str] = []
        self._readline: Any = _import_readline() if sys.stdin.isatty() and sys.stdout.isatty() else None
        if self._readline is not None:
            self._set_up()

    def read(self) -> str:
        """Returns the next question. Raises `EOFError` at the end of input, and `KeyboardInterrupt` for Ctrl-C."""
        text = self._read_question()
        if text.strip() and self._history is not None:
            self._history.add(text)
        if text.strip() and self._readline is not None:
            self._readline.add_history(text)
        return text.strip()

    def _read_question(self) -> str:
        line = self._input(PROMPT)
        if line.strip().startswith(QUOTES):
            return self._read_quoted(line.strip().removeprefix(QUOTES))
        lines: list[str] = []
        while line.endswith("\\"):
            lines.append(line[:-1])
            line = self._input(MORE)
        return "\n".join([*lines, line])

    def _read_quoted(self, line: str) -> str:
        lines: list[str] = []
        while not line.rstrip().endswith(QUOTES):
            lines.append(line)
            line = self._input(MORE)
        return "\n".join([*lines, line.rstrip().removesuffix(QUOTES)]).strip("\n")

    def _input(self, prompt: str) -> str:
        if self._readline is not None:
            return input(prompt)
        print(prompt, end="", file=sys.stderr, flush=True)  # standard output is for the answers
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    def _set_up(self) -> None:
        self._readline.set_auto_history(False)
        self._readline.clear_history()
        for entry in self._history.read() if self._history is not None else ():
            self._readline.add_history(entry)
        self._readline.set_completer(self._next_match)
        self._readline.set_completer_delims(" \n")
        libedit = "libedit" in (self._readline.__doc__ or "")
        self._readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
        if not libedit:  # pasted lines stay one question
            self._readline.parse_and_bind("set enable-bracketed-paste on")

    def _next_match(self, _: str, state: int) -> str | None:
        if state == 0:
            self._matches = list(self._complete(self._readline.get_line_buffer()))
        return self._matches[state] if state < len(self._matches) else None


def _import_readline() -> Any:
    """Returns the module `readline`; None where Python has none, such as on Windows."""
    try:
        import readline
    except ImportError:
        return None
    return readline
