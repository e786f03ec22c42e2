"""OpenAI's legacy text completions, which fill-in-the-middle still uses."""

from typing import Any

from penstock import _lenient_fields as lenient
from penstock._codec import Protocol
from penstock._protocols.completions.decode import CompletionsDecoder
from penstock._protocols.completions.encode import ERRORS, CompletionsEncoder, build_error_body, fold_body


def matches_payload(_: str, payload: dict[str, Any]) -> bool:
    """True for choices with `text` and without `delta` or `message`."""
    if payload.get("object") == "text_completion":
        return True
    choices = lenient.get_objects(payload, "choices")
    return bool(choices) and "text" in choices[0] and not {"delta", "message"} & set(choices[0])


PROTOCOL = Protocol(
    "completions",
    matches_payload,
    CompletionsDecoder,
    CompletionsEncoder,
    body=fold_body,
    end_marks=(b"data: [DONE]", b"data:[DONE]"),
    end_frame=b"data: [DONE]\n\n",
    errors=ERRORS,
    error_body=build_error_body,
    messages_field="prompt",
    snake_case=True,
)
