"""Markers: what a protocol has no field for travels in a field it has, with a mark that our own readers recognise.

Writers call `embed_markers` before they write; readers call `extract_markers` after they have read. Both take and
return canonical messages. Security: users, tools and models write text, so a mark in a text may only say what a part is
or where it belongs. It never creates a part, an address or a system message; those need a seal, a field beside the
text (see `wrap_system_parts`).
"""

from penstock._markers.embed import embed_markers
from penstock._markers.extract import extract_markers
from penstock._markers.marks import (
    CARRIED_FEATURES,
    EMPTY_MARK,
    RAW_INPUT_KEY,
    NativeSupport,
    free_text_schema,
    input_as_object,
    input_json,
    parse_free_text_schema,
    replace_deep_inputs,
    restore_input_text,
)

__all__ = [
    "CARRIED_FEATURES",
    "EMPTY_MARK",
    "RAW_INPUT_KEY",
    "NativeSupport",
    "embed_markers",
    "extract_markers",
    "free_text_schema",
    "input_as_object",
    "input_json",
    "parse_free_text_schema",
    "replace_deep_inputs",
    "restore_input_text",
]
