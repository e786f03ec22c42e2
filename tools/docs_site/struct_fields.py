"""A griffe extension for the API reference: a Struct is shown with a signature, as a dataclass is.

Its fields become the parameters of `__init__`. A comment behind a field becomes its description.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from griffe import Attribute, Class, Docstring, Extension, Function, Parameter, ParameterKind, Parameters

_STRUCT = "msgspec.Struct"


@cache
def _source_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _parents(struct: Class) -> list[Class]:
    """The class and the classes it inherits from, the root first."""
    try:
        return [*reversed(struct.mro()), struct]
    except ValueError:
        return [struct]


def _is_struct(struct: Class) -> bool:
    return any(getattr(base, "canonical_path", base) == _STRUCT for parent in _parents(struct) for base in parent.bases)


def _fields(struct: Class) -> list[Attribute]:
    members = struct.members.values()
    return [member for member in members if isinstance(member, Attribute) and member.annotation is not None]


def _comment(field: Attribute) -> str:
    """The comment on the line of a field."""
    if field.endlineno is None or not isinstance(field.filepath, Path):
        return ""
    line: str = _source_lines(field.filepath)[field.endlineno - 1]
    return line.partition("  # ")[2]


def _parameters(struct: Class) -> list[Parameter]:
    found: dict[str, Parameter] = {}
    for parent in _parents(struct):
        only_keywords = str(parent.keywords.get("kw_only", "")) == "True"
        kind = ParameterKind.keyword_only if only_keywords else ParameterKind.positional_or_keyword
        for field in _fields(parent):
            if "instance-attribute" in field.labels and not field.name.startswith("_"):
                found[field.name] = Parameter(field.name, annotation=field.annotation, kind=kind, default=field.value)
    return sorted(found.values(), key=lambda one: one.kind is ParameterKind.keyword_only)


def _describe_fields(struct: Class) -> None:
    """Adds the comments behind the fields to the docstring."""
    rows = [f"    {field.name}: {text}" for field in _fields(struct) if (text := _comment(field))]
    if rows:
        written = struct.docstring.value if struct.docstring else ""
        struct.docstring = Docstring("\n".join([written, "", "Attributes:", *rows]), parent=struct)


class StructFields(Extension):
    """Gives each Struct of a package an `__init__`, and removes the headings of its fields."""

    def on_package(self, *, pkg: Any, **_: Any) -> None:
        """Changes every Struct, after the whole package is read."""
        structs = [one for one in _classes(pkg) if _is_struct(one) and "__init__" not in one.members]
        signatures = [(struct, _parameters(struct)) for struct in structs]
        for struct, parameters in signatures:
            _describe_fields(struct)
            this = Parameter("self", annotation=None, kind=ParameterKind.positional_or_keyword, default=None)
            made = Function("__init__", parameters=Parameters(this, *parameters), parent=struct, returns="None")
            struct.set_member("__init__", made)
        for struct in structs:
            for field in _fields(struct):
                if field.docstring is None and "instance-attribute" in field.labels:
                    struct.del_member(field.name)


def _classes(owner: Any) -> list[Class]:
    """The classes in a module or package, nested ones too."""
    found: list[Class] = []
    for member in owner.members.values():
        if not member.is_alias and (member.is_module or member.is_class):
            found += [member] if member.is_class else []
            found += _classes(member)
    return found
