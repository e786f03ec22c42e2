"""Tools that a protocol knows by type alone and the client runs: what their inputs look like, for everybody else.

An agent that relies on one keeps it with any provider: it is offered as a function of the same name. Calls of those
with an `item` are items of their own in the client's protocol, and are made so again on the way back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick

if TYPE_CHECKING:
    from penstock.pick import Object

_STRING: Object = {"type": "string"}
_NUMBER: Object = {"type": "integer"}


def _words(*words: str) -> Object:
    return {"type": "string", "enum": list(words)}


def _list(of: Object) -> Object:
    return {"type": "array", "items": of}


def _object(needed: str, **properties: Object) -> Object:
    return {"type": "object", "properties": properties, "required": needed.split()}


class BuiltIn(msgspec.Struct, frozen=True):
    """A tool known by the start of its type."""

    kind: str
    description: str
    schema: dict[str, Any]
    item: str = ""


BUILT_IN: tuple[BuiltIn, ...] = (
    BuiltIn(
        "bash_", "Runs a command in a shell that keeps its state between calls.",
        _object("", command=_STRING, restart={"type": "boolean"}),
    ),
    BuiltIn(
        "text_editor_", "Views, creates and edits text files.",
        _object(
            "command path", command=_words("view", "create", "str_replace", "insert", "undo_edit"), path=_STRING,
            file_text=_STRING, old_str=_STRING, new_str=_STRING, insert_line=_NUMBER, insert_text=_STRING,
            view_range=_list(_NUMBER),
        ),
    ),
    BuiltIn(
        "memory_", "Keeps notes in files below /memories.",
        _object(
            "command", command=_words("view", "create", "str_replace", "insert", "delete", "rename"), path=_STRING,
            file_text=_STRING, old_str=_STRING, new_str=_STRING, insert_line=_NUMBER, insert_text=_STRING,
            old_path=_STRING, new_path=_STRING, view_range=_list(_NUMBER),
        ),
    ),
    BuiltIn(
        "local_shell", "Runs a command on the user's machine.",
        _object(
            "action", action=_object(
                "type command", type=_words("exec"), command=_list(_STRING), working_directory=_STRING,
                timeout_ms=_NUMBER, env={"type": "object", "additionalProperties": _STRING},
            ),
        ),
        "local_shell_call",
    ),
    BuiltIn(
        "shell", "Runs commands in a shell.",
        _object("action", action=_object(
            "commands", commands=_list(_STRING), timeout_ms=_NUMBER, max_output_length=_NUMBER,
        )),
        "shell_call",
    ),
    BuiltIn(
        "apply_patch", "Creates, changes or deletes a file by a patch.",
        _object("operation", operation=_object(
            "type path", type=_words("create_file", "update_file", "delete_file"), path=_STRING, diff=_STRING,
        )),
        "apply_patch_call",
    ),
)  # fmt: skip


def built_in(kind: str) -> BuiltIn | None:
    """The tool of that type, dated or not."""
    return next((tool for tool in BUILT_IN if kind == tool.kind or kind.startswith(tool.kind.rstrip("_") + "_2")), None)


def schema_in(tool: Object) -> Object | None:
    """The schema of a tool of a strange kind, if it has one under a word that is used for them."""
    for place in (tool, pick.table(tool, "function"), pick.table(tool, "custom")):
        for word in ("parameters", "input_schema", "inputSchema", "parameters_json_schema", "schema"):
            if isinstance(place.get(word), dict):
                return pick.table(place, word)
    return None
