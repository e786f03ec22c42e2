"""`penstock completion SHELL` prints a script for bash, zsh or fish. It asks `--words` what the last word may become.

What is offered follows from the parser of each command and from `complete` in `commands/COMMAND.toml`.
"""

from __future__ import annotations

import os
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock._cli import COMMANDS, create_parser
from penstock._cli.terminal import print_json
from penstock._printable_text import printable
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from argparse import Action, Namespace
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from penstock._cli import CommandParser
    from penstock._engines.config import Config

FILES = ":files"  # printed instead of candidates: the shell completes names of files
SCRIPTS = {"bash": "completion.bash", "zsh": "completion.zsh", "fish": "completion.fish"}


class Candidate(NamedTuple):
    """A word that can be completed to, and what it is."""

    word: str
    about: str = ""


_HELP = Candidate("--help", "show the help")
Candidates: TypeAlias = "Iterable[Candidate] | None"  # None: names of files


def run_completion(options: Namespace) -> int:
    """Prints a script, or the candidates for the last word."""
    if options.words is not None:
        _print_candidates(options.words, as_json=options.json)
        return 0
    if not options.shell:
        raise InputError("completion needs the name of a shell: bash, zsh or fish")
    script = files("penstock._cli").joinpath(f"commands/{SCRIPTS[options.shell]}").read_text(encoding="utf-8")
    if options.json:
        print_json({"shell": options.shell, "script": script})
    else:
        print(script, end="")
    return 0


def _print_candidates(words: Sequence[str], *, as_json: bool) -> None:
    found = complete(words)
    rows = [] if found is None else list(dict.fromkeys(found))
    if as_json:
        print_json({"files": found is None, "words": [{"word": row.word, "about": row.about} for row in rows]})
    elif found is None:
        print(FILES)
    for row in () if as_json else rows:
        sys.stdout.write(f"{row.word}\t{printable(row.about)}\n")


def complete(words: Sequence[str]) -> Candidates:
    """Returns what the last word may become. The words before it are those of the command line, without `penstock`."""
    *before, begin = words or [""]
    name = next((word for word in before if not word.startswith("-")), "")
    _, commands = create_parser(name)
    if name not in COMMANDS:
        found = [Candidate(command, does) for command, (_, does) in COMMANDS.items()]
        options = [_HELP, Candidate("--version", "show the version")]
        return _matching(options if begin.startswith("-") else found, begin)
    parser = commands[name]
    given = CommandLine(parser, before[before.index(name) + 1 :])
    option, equals, value = begin.partition("=")
    if equals and option in given.options:
        values = _candidates(given.options[option], name, value)
        return values and [Candidate(f"{option}={row.word}", row.about) for row in values]
    if given.waiting is not None:
        return _candidates(given.waiting, name, begin)
    if begin.startswith("-"):
        actions = dict.fromkeys(given.options.values())
        return _matching([_HELP, *(Candidate(action.option_strings[-1], _about(action)) for action in actions)], begin)
    return _candidates(given.positional, name, begin) if given.positional is not None else []


def _about(action: Action) -> str:
    return (action.help or "").replace("%%", "%").split(" (default")[0]


class CommandLine:
    """The words of a command that are complete. `waiting`: an option that needs a value now."""

    def __init__(self, parser: CommandParser, words: Sequence[str]) -> None:
        actions = parser.arguments
        self.options: Mapping[str, Action] = {name: action for action in actions for name in action.option_strings}
        self.waiting: Action | None = None
        rest = [action for action in actions if not action.option_strings]
        for word in words:
            if self.waiting is not None:
                self.waiting = None
            elif word.startswith("-"):
                action = self.options.get(word)
                self.waiting = action if action is not None and action.nargs != 0 else None
            elif rest and rest[0].nargs not in {"*", "+"}:
                rest.pop(0)
        self.positional: Action | None = rest[0] if rest else None


def _candidates(action: Action, command: str, begin: str) -> Candidates:
    """Returns the values of an option or argument."""
    if action.choices is not None:
        return _matching((Candidate(str(choice)) for choice in action.choices), begin)
    completer: str = vars(action).get("completer", "")
    if completer == "file":
        return None
    source = COMPLETERS.get(completer)
    return _matching(source(begin, command), begin) if source is not None else []


def _matching(found: Iterable[Candidate], begin: str) -> list[Candidate]:
    return [row for row in found if row.word.startswith(begin)]


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def _load_engine_config() -> Config:
    """Returns the configuration that a command would read; an empty one if that cannot be read or is not trusted."""
    from penstock._engines.config import Config
    from penstock._gateway.config import load_config
    from penstock._gateway.provider_layers import add_custom_providers

    try:
        return add_custom_providers(load_config(None, os.environ)).engine
    except (PenstockError, OSError):
        return Config()


def _protocols(encoding: str) -> Callable[[str, str], Iterator[Candidate]]:
    def find(_: str, __: str) -> Iterator[Candidate]:
        from penstock._protocols import MODULES, protocol

        for name in sorted(MODULES):
            if not encoding or getattr(protocol(name), encoding) is not None:
                yield Candidate(name)

    return find


def _framings(_: str, __: str) -> Iterator[Candidate]:
    from penstock._framing import PARSERS

    return map(Candidate, PARSERS)


def _policies(_: str, __: str) -> Iterator[Candidate]:
    return map(Candidate, ("context-window", "reserve-output"))


def _providers(_: str, __: str) -> Iterator[Candidate]:
    from penstock._providers.registry import providers

    config = _load_engine_config()
    for name in dict.fromkeys([*config.providers, *providers()]):
        yield Candidate(name, providers()[name].title if name in providers() else "")


def _stored_providers(_: str, __: str) -> Iterator[Candidate]:
    from penstock._engines.environ import LIVE
    from penstock._store.provider_keys import ProviderKeys

    return map(Candidate, ProviderKeys.of(LIVE).read())


def _key_names(_: str, __: str) -> Iterator[Candidate]:
    from penstock._gateway.config import load_config
    from penstock._gateway.keys import open_key_store

    try:
        config = load_config(None, os.environ)
        store = open_key_store(config, os.environ)
        return map(Candidate, [*config.keys, *(store.read().keys if store is not None else ())])
    except (PenstockError, OSError):
        return iter(())


def _team_names(_: str, __: str) -> Iterator[Candidate]:
    from penstock._gateway.config import load_config
    from penstock._gateway.keys import open_key_store

    try:
        config = load_config(None, os.environ)
        store = open_key_store(config, os.environ)
        return map(Candidate, [*config.teams, *(store.read().teams if store is not None else ())])
    except (PenstockError, OSError):
        return iter(())


def _models(begin: str, _: str) -> Iterator[Candidate]:
    """Yields aliases and providers; after the slash, the models of one provider."""
    from penstock._engines.environ import LIVE
    from penstock._engines.model_resolution import REPLAY, is_pattern, list_configured_providers, list_known_models
    from penstock._replay import describe_scripts

    config = _load_engine_config()
    who, slash, _rest = begin.partition("/")
    if slash and who == REPLAY:
        yield from (Candidate(f"{REPLAY}/{name}", about) for name, about in describe_scripts().items())
    elif slash and config.has(who):
        yield from (Candidate(f"{who}/{name}") for name in sorted(list_known_models(config.provider(who), config)))
    elif not slash:
        yield from (Candidate(name, "an alias") for name in config.aliases if not is_pattern(name))
        rows = list_configured_providers(config, LIVE)
        known = {row.name for row in rows}
        yield from (Candidate(f"{row.name}/", row.title) for row in rows)
        yield from (row._replace(word=f"{row.word}/") for row in _providers("", "") if row.word not in known)


COMPLETERS: Mapping[str, Callable[[str, str], Iterator[Candidate]]] = {
    "framing": _framings,
    "key": _key_names,
    "team": _team_names,
    "model": _models,
    "policy": _policies,
    "provider": _providers,
    "request-protocol": _protocols(""),
    "source": _protocols("decoder"),
    "stored-provider": _stored_providers,
    "target": _protocols("encoder"),
}
