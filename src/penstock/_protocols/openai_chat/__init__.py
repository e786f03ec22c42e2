"""OpenAI Chat Completions, and the many who imitate it."""

from typing import Any

from penstock import _lenient_fields as lenient
from penstock._codec import Protocol
from penstock._protocols.openai_chat.decode import ChatDecoder
from penstock._protocols.openai_chat.encode import ChatEncoder
from penstock._protocols.openai_chat.wire import ERRORS, NAME, build_error_body, fold_body
from penstock._request_profile import PLAIN, USER_FILES, IdentifierRule, Profile


def matches_payload(_: str, payload: dict[str, Any]) -> bool:
    """True for a chunk, a completion, or any payload whose choices have a delta or a message."""
    if str(payload.get("object", "")).startswith("chat.completion"):
        return True
    return any({"delta", "message"} & set(choice) for choice in lenient.get_objects(payload, "choices"))


def read_priced_tokens(usage: dict[str, Any]) -> dict[str, int]:
    """Returns the tokens of audio, which have prices of their own."""
    fields = {"audio_input": "prompt_tokens_details", "audio_output": "completion_tokens_details"}
    details = {name: lenient.get_object(usage, field) for name, field in fields.items()}
    return {name: lenient.get_integer(row, "audio_tokens") or 0 for name, row in details.items()}


PROTOCOL = Protocol(
    NAME,
    matches_payload,
    ChatDecoder,
    ChatEncoder,
    body=fold_body,
    end_marks=(b"data: [DONE]", b"data:[DONE]"),
    end_frame=b"data: [DONE]\n\n",
    errors=ERRORS,
    error_body=build_error_body,
    priced_tokens=read_priced_tokens,
    snake_case=True,
    profile=Profile(
        protocol=NAME,
        provider="openai",
        ids=IdentifierRule(limit=40),
        names=PLAIN,
        answers=False,
        custom=True,
        thinking=("effort", "none"),
        holding=USER_FILES,
    ),
)
