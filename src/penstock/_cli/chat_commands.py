"""The commands of a conversation in `penstock chat`: lines that begin with a slash."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock._cli.chat_files import read_attachment
from penstock._cli.common_options import print_message
from penstock._printable_text import printable
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._cli.chat_session import ChatSession


class ChatCommand(NamedTuple):
    """A command: the name of its argument, what it does, and the function that runs it. It returns True to leave."""

    argument: str
    does: str
    run: Callable[[ChatSession, str], bool]


def run_command(session: ChatSession, line: str) -> bool:
    """Runs a command line such as `/model openai/gpt-5`. Returns True if the chat is to end."""
    name, _, argument = line.partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else "/help lists the commands"
        print_message(f"there is no command {printable(name)}; {hint} (// begins a question with a slash)")
        return False
    try:
        return command.run(session, argument.strip())
    except (InputError, OSError) as error:
        print_message(str(error))
        return False


def complete_line(line: str) -> Iterator[str]:
    """Yields what the word at the end of a line may become: a command, or a file after `/file` and `/save`."""
    name, space, rest = line.partition(" ")
    if not space:
        yield from (f"{command} " for command in COMMANDS if line and command.startswith(name))
    elif COMMANDS.get(name, _NO_COMMAND).argument in {"PATH", "FILE"}:
        folder, _, begin = rest.rpartition("/")
        base = Path(folder or ("/" if rest.startswith("/") else ".")).expanduser()
        try:
            found = sorted(base.iterdir())
        except OSError:
            return
        for path in found:
            if path.name.startswith(begin):
                yield f"{folder}{'/' if '/' in rest else ''}{path.name}{'/' if path.is_dir() else ''}"


def _show_help(_: ChatSession, __: str) -> bool:
    for name, command in COMMANDS.items():
        print_message(f"{f'{name} {command.argument}':<15} {command.does}")
    print_message('A line that ends with \\ goes on in the next one; """ begins and ends several lines.')
    print_message("Ctrl-C stops an answer; a second one, or Ctrl-D, leaves.")
    return False


def _set_model(session: ChatSession, name: str) -> bool:
    if name:
        session.set_model(name)
    print_message(f"the model is {printable(session.model)}")
    return False


def _set_system(session: ChatSession, text: str) -> bool:
    session.system = text
    print_message("the system prompt is set" if text else "there is no system prompt now")
    return False


def _attach_file(session: ChatSession, path: str) -> bool:
    if not path:
        raise InputError("/file needs the path of a file")
    session.attachments.append(read_attachment(Path(path).expanduser()))
    print_message(f"{printable(path)} goes with the next question")
    return False


def _list_tools(session: ChatSession, _: str) -> bool:
    for tool in session.tools:
        about = tool.definition.description.partition("\n")[0]
        print_message(f"{tool.name}: {about}" if about else tool.name)
    if not session.tools:
        print_message("there are no tools: start with --tool module:function")
    return False


def _clear(session: ChatSession, _: str) -> bool:
    session.clear()
    print_message("the conversation begins anew")
    return False


def _save(session: ChatSession, path: str) -> bool:
    if not path:
        raise InputError("/save needs the path of a file")
    file = Path(path).expanduser()
    data = msgspec.json.format(msgspec.json.encode(session.to_json()), indent=2) + b"\n"
    with file.open("xb") as output:
        output.write(data)
    print_message(f"{printable(path)}: {len(session.messages)} messages")
    return False


def _quit(_: ChatSession, __: str) -> bool:
    return True


COMMANDS = {
    "/help": ChatCommand("", "lists the commands", _show_help),
    "/model": ChatCommand("NAME", "asks another model from now on; without a name, shows which one", _set_model),
    "/system": ChatCommand("TEXT", "sets the system prompt", _set_system),
    "/file": ChatCommand("PATH", "sends a file with the next question: an image, a PDF, a text", _attach_file),
    "/tools": ChatCommand("", "lists the tools", _list_tools),
    "/clear": ChatCommand("", "forgets the conversation", _clear),
    "/save": ChatCommand("FILE", "writes the conversation to a new file, as JSON", _save),
    "/quit": ChatCommand("", "leaves", _quit),
}
_NO_COMMAND = ChatCommand("", "", _quit)
