"""What requests of OpenAI's APIs share: settings with other names, files, formats of answers, declared functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any, TypeAlias

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_fields import Object
from penstock._media import split_file_url
from penstock.errors import BadRequest

FieldReader: TypeAlias = Callable[[Object, str], Any]


def parse_field_names(text: str) -> dict[str, str]:
    """Parses a list like `top_p n=choices`: returns the canonical name of each field."""
    return {field: name or field for field, _, name in (row.partition("=") for row in text.split())}


AUDIO_TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav"}
MEDIA_TYPES = AUDIO_TYPES | parse_field_names(
    "pdf=application/pdf txt=text/plain md=text/markdown csv=text/csv html=text/html json=application/json "
    "png=image/png jpg=image/jpeg jpeg=image/jpeg gif=image/gif webp=image/webp mp4=video/mp4"
)


def index_readers(fields: Mapping[FieldReader, str]) -> dict[str, tuple[str, FieldReader]]:
    """Returns the canonical name and the reader of each field. `fields` has the fields of each reader."""
    return {field: (name, read) for read, text in fields.items() for field, name in parse_field_names(text).items()}


def read_fields(body: Object, readers: Mapping[str, tuple[str, FieldReader]]) -> Object:
    """Returns the settings of a request by their canonical names."""
    return {readers[key][0]: readers[key][1](body, key) for key in body if key in readers}


def write_fields(settings: rq.Settings, fields: Mapping[str, str], body: Object) -> None:
    """Writes the settings that have a value. `fields` has the canonical name of each field."""
    for key, value in zip(fields, map(getattr, repeat(settings), fields.values()), strict=True):
        if value is not None and value != "":
            body[key] = value


def get_metadata(body: Object, key: str) -> Object | None:
    """Returns the metadata of a request; None if it is empty."""
    return strict.get_object(body, key) or None


def guess_media_type(name: str) -> str:
    """Returns a document's media type by the extension of its name or URL."""
    return MEDIA_TYPES.get(name.rpartition(".")[2].lower(), "application/pdf")


def read_file_url(url: str, media: str) -> tuple[rq.File, str]:
    """Returns a file by its URL, and the URL if it cannot be rebuilt from the file."""
    kind, address, data = split_file_url(url, media)
    is_unusual = url.startswith("data:") and not (data and url.startswith(f"data:{kind};base64,"))
    return rq.File(kind, address, data), url if is_unusual else ""


def read_content(content: Any, read_part: Callable[[Object], rq.AnyPart], key: str = "content") -> list[rq.AnyPart]:
    """Reads content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return [rq.Text(content)] if content else []
    if content is None:
        return []
    if not isinstance(content, list):
        raise BadRequest("a string or a list of parts", content, key)
    return strict.read_each(content, read_part, key)  # pyright: ignore[reportUnknownArgumentType]


def read_plain_format(kind: Any) -> rq.Format | None:
    """Returns the format of an answer without a schema by its type; None if the type is unknown."""
    if kind not in ("text", "json_object"):
        return None
    return rq.Format("json" if kind == "json_object" else "text")


def read_schema_format(fields: Object) -> rq.Format:
    """Reads the format of an answer that follows a JSON schema."""
    name, description = strict.get_text(fields, "name"), strict.get_text(fields, "description")
    schema = strict.get_object(fields, "schema") or None
    return rq.Format("schema", name, schema, description, strict.get_flag(fields, "strict"))


def read_function(fields: Object, schema_key: str = "parameters") -> rq.Tool:
    """Reads the declaration of a function."""
    schema = None if fields.get(schema_key) is None else strict.get_object(fields, schema_key)
    name, description = strict.require_text(fields, "name"), strict.get_text(fields, "description")
    return rq.Tool(name, description, schema, "function", strict.get_flag(fields, "strict"))
