"""OpenAI Responses, and Open Responses, which is its open subset."""

from typing import Any

from penstock import _lenient_fields as lenient
from penstock._codec import Protocol
from penstock._protocols.responses.decode import ResponsesDecoder
from penstock._protocols.responses.encode import ERRORS, ResponsesEncoder, build_body, build_error_body
from penstock._protocols.responses.wire import NAME
from penstock._request_profile import PLAIN, USER_FILES, IdentifierRule, Profile


def matches_payload(_: str, payload: dict[str, Any]) -> bool:
    """Returns True if a payload belongs to this protocol."""
    kind = payload.get("type")
    return payload.get("object") == "response" or (isinstance(kind, str) and kind.startswith("response."))


def read_priced_tokens(usage: dict[str, Any]) -> dict[str, int]:
    """Returns the tokens of audio, which have prices of their own."""
    fields = {"audio_input": "input_tokens_details", "audio_output": "output_tokens_details"}
    details = {name: lenient.get_object(usage, field) for name, field in fields.items()}
    return {name: lenient.get_integer(row, "audio_tokens") or 0 for name, row in details.items()}


PROTOCOL = Protocol(
    NAME,
    matches_payload,
    ResponsesDecoder,
    ResponsesEncoder,
    body=build_body,
    end_marks=(b'"response.completed"', b'"response.incomplete"'),
    errors=ERRORS,
    error_body=build_error_body,
    priced_tokens=read_priced_tokens,
    messages_field="input",
    snake_case=True,
    profile=Profile(
        protocol=NAME,
        provider="openai",
        ids=IdentifierRule(limit=64),
        names=PLAIN,
        answers=False,
        custom=True,
        namespaces=True,
        thinking=("effort", "none"),
        holding=USER_FILES,
    ),
)
