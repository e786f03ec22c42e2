"""The keyword parameters of a client's methods, and the bodies they stand for, as TypedDicts.

There is one TypedDict for each operation. `LlmApi`, `Client` and `SyncClient` share them, so editors complete the same
names everywhere. `check_parameters` refuses other names at run time. None means: not given.

Annotations are evaluated here, unlike elsewhere: a TypedDict compiles each annotation that is text, in 20 µs.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Required, TypeAlias, TypedDict

from penstock._client.parameter_values import CHECKS, Effort, check_values
from penstock._http.request_options import RequestOptions, Timeouts
from penstock._option_checks import nearest_name
from penstock.errors import UnknownParameter
from penstock.request import Format, Message, Request, Tool, ToolChoice, Turn

if TYPE_CHECKING:
    from penstock._client.hooks import DecisionHook, EventHook, FinishHook, RequestHook
    from penstock._engines.router import Router
    from penstock._messages.options import ConvertOptions
    from penstock._providers.registry import Prices
    from penstock.stores import ReasoningStore, ResponseCache


class MessageFields(TypedDict, total=False):
    """A message of OpenAI's Chat Completions."""

    role: Required[Literal["system", "developer", "user", "assistant", "tool", "function"]]
    content: str | Sequence[Mapping[str, Any]] | None
    name: str
    tool_calls: Sequence[Mapping[str, Any]]
    tool_call_id: str
    refusal: str | None
    reasoning_content: str


class ReasoningFields(TypedDict, total=False):
    """How a model should reason. `max_tokens` is the budget; `exclude` hides the reasoning, `summary` asks for it."""

    effort: Effort
    max_tokens: int
    enabled: bool
    exclude: bool
    summary: str


class TimeoutFields(TypedDict, total=False):
    """Seconds, as in `Timeouts`."""

    connect: float
    first_byte: float
    between_bytes: float
    total: float
    retry_wait: float


class RequestOptionFields(TypedDict, total=False):
    """The fields of `RequestOptions`."""

    headers: Mapping[str, str]
    extra_body: Mapping[str, Any]
    timeouts: Timeouts | TimeoutFields
    proxy: str
    no_proxy: str | Sequence[str]
    ca_bundle: str | Sequence[str]
    client_certificate: Any
    verify_ssl: bool
    key: str


Prompt: TypeAlias = str | Sequence[str] | Sequence[int]
ChatMessage: TypeAlias = Message | Turn | MessageFields | Mapping[str, Any]
Messages: TypeAlias = str | Sequence[ChatMessage]
AnyTool: TypeAlias = Tool | Mapping[str, Any]
AnyToolChoice: TypeAlias = Literal["auto", "none", "required"] | ToolChoice | Mapping[str, Any]
AnyFormat: TypeAlias = Format | Mapping[str, Any]
AnyReasoning: TypeAlias = Effort | bool | int | ReasoningFields
AnyOptions: TypeAlias = RequestOptions | RequestOptionFields | Mapping[str, Any]


# ── every call ────────────────────────────────────────────────────────────────────────────────────


class CallParameters(TypedDict, total=False):
    """The parameters of every method. `timeout` in seconds limits the whole call; `extra_body` holds vendor fields."""

    options: AnyOptions | None
    timeout: float | Timeouts | TimeoutFields | None
    extra_body: Mapping[str, Any] | None
    extra_headers: Mapping[str, str] | None
    engine: Literal["", "native", "sdk"] | None


class TurnParameters(CallParameters, total=False):
    """The parameters of every turn that change how its request is converted. docs/messages.md describes them.

    `cache`: False leaves the response cache out, `refresh` asks again and replaces the stored answer.
    """

    cache: bool | Literal["refresh"] | None
    prompt_caching: bool | None
    context_management: bool | None
    strict: bool | None
    convert: "ConvertOptions | None"


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────


class SamplingFields(TypedDict, total=False):
    """Settings that all forms of a turn have."""

    temperature: float | None
    top_p: float | None
    top_k: int | None
    frequency_penalty: float | None
    presence_penalty: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    max_output_tokens: int | None
    user: str | None
    stream: bool | None
    stream_options: Mapping[str, Any] | None


class ConversationSettings(SamplingFields, total=False):
    """Settings of conversations, without the tools and the form of the answer."""

    tool_choice: AnyToolChoice | None
    parallel_tool_calls: bool | None
    reasoning: AnyReasoning | None
    metadata: Mapping[str, str] | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    safety_identifier: str | None
    service_tier: str | None
    store: bool | None
    top_logprobs: int | None


class ConversationFields(ConversationSettings, total=False):
    """Settings of conversations: tools, reasoning, the form of the answer."""

    tools: Sequence[AnyTool] | None
    response_format: AnyFormat | None


class ChatSettings(ConversationSettings, total=False):
    """The settings of Chat Completions, without the tools and the form of the answer."""

    audio: Mapping[str, Any] | None
    enable_thinking: bool | None
    function_call: str | Mapping[str, Any] | None
    functions: Sequence[Mapping[str, Any]] | None
    logit_bias: Mapping[str, float] | None
    logprobs: bool | None
    max_completion_tokens: int | None
    max_tokens: int | None
    modalities: Sequence[str] | None
    n: int | None
    prediction: Mapping[str, Any] | None
    reasoning_effort: Effort | None
    thinking: Mapping[str, Any] | None
    thinking_budget: int | None
    verbosity: Literal["low", "medium", "high"] | None
    web_search_options: Mapping[str, Any] | None


class ChatFields(ChatSettings, ConversationFields, total=False):
    """The settings of Chat Completions."""


class ResponsesFields(ConversationFields, total=False):
    """The settings of the Responses API."""

    background: bool | None
    conversation: str | Mapping[str, Any] | None
    include: Sequence[str] | None
    instructions: str | None
    max_tool_calls: int | None
    previous_response_id: str | None
    prompt: Mapping[str, Any] | None
    text: Mapping[str, Any] | None
    truncation: Literal["auto", "disabled"] | None


class CompletionFields(SamplingFields, total=False):
    """The settings of text completions."""

    best_of: int | None
    echo: bool | None
    logit_bias: Mapping[str, float] | None
    logprobs: int | None
    max_tokens: int | None
    n: int | None


class ChatParameters(ChatFields, TurnParameters, total=False):
    """The keyword parameters of `chat` and `chat_stream`."""


class ResponsesParameters(ResponsesFields, TurnParameters, total=False):
    """The keyword parameters of `responses` and `responses_stream`."""


class CompleteParameters(CompletionFields, TurnParameters, total=False):
    """The keyword parameters of `complete` and `complete_stream`."""

    suffix: str | None


class FimParameters(CompletionFields, TurnParameters, total=False):
    """The keyword parameters of `fim_stream`. `prompt` is another name of `prefix`."""

    prompt: str | None


class ChatBody(ChatFields, total=False):
    """The body of a Chat Completions request. Messages may be canonical, too."""

    model: str
    messages: Required[Messages]


class ResponsesBody(ResponsesFields, total=False):
    """The body of a Responses request."""

    model: str
    input: Required[Messages]


class CompletionBody(CompletionFields, total=False):
    """The body of a text completion request."""

    model: str
    prompt: Required[Prompt]
    suffix: str | None


ChatInput: TypeAlias = str | Request | ChatBody | Mapping[str, Any]
ResponsesInput: TypeAlias = str | Request | ResponsesBody | Mapping[str, Any]
CompletionInput: TypeAlias = str | Request | CompletionBody | Mapping[str, Any]


# ── other calls ───────────────────────────────────────────────────────────────────────────────────


EmbedInput: TypeAlias = str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]]


class EmbedParameters(CallParameters, total=False):
    """The keyword parameters of `embed`. `input` is another name of `texts`."""

    input: EmbedInput | None
    dimensions: int | None
    encoding_format: Literal["float", "base64"] | None
    input_type: str | None
    batch_size: int | None
    user: str | None


class RerankParameters(CallParameters, total=False):
    """The keyword parameters of `rerank`. `top_n` and `top_k` are other names of `top`."""

    top_n: int | None
    top_k: int | None


class ListModelsParameters(CallParameters, total=False):
    """The keyword parameters of `list_models`. `chat`: only models that answer conversations."""

    chat: bool | None


# ── the client itself ─────────────────────────────────────────────────────────────────────────────


class PriceTierFields(TypedDict, total=False):
    """Prices of prompts that are longer than `above` tokens."""

    above: Required[int]
    input: float
    output: float
    cached: float
    written: float


class PriceFields(TypedDict, total=False):
    """The prices of a model: dollars for a million tokens."""

    input: float
    output: float
    cached: float
    written: float
    written_1h: float
    reasoning: float
    audio_input: float
    audio_output: float
    tiers: Sequence[PriceTierFields]


AnyPrices: TypeAlias = "Prices | PriceFields | Mapping[str, float]"


class ClientParameters(TypedDict, total=False):
    """The keyword parameters of `Client` and `SyncClient`.

    `options` apply to every call. `store` keeps the reasoning state of earlier answers: None keeps it in memory, within
    bounds; False keeps none. `prices` are dollars for a million tokens, by the name of a model or a pattern; `budget`
    limits the dollars that are spent. `tracing`: OpenTelemetry spans without content, with `content`, or none. The
    hooks and all of these are in docs/operations.md.
    """

    options: AnyOptions | None
    env: Mapping[str, str] | None
    store: "ReasoningStore | Literal[False] | None"
    tenant: str
    router: "Router | None"
    cache: "ResponseCache | None"
    prices: "Mapping[str, AnyPrices] | None"
    budget: float | None
    on_request: "RequestHook | None"
    on_event: "EventHook | None"
    on_finish: "FinishHook | None"
    on_decision: "DecisionHook | None"
    tracing: bool | Literal["content"]


# ── the check ─────────────────────────────────────────────────────────────────────────────────────

# What people from other libraries try → what they need here.
_HINTS: dict[str, str] = {
    **dict.fromkeys(("system", "system_prompt"), "put a message of role 'system' first"),
    **dict.fromkeys(("output", "output_type", "response_model"), "client.run(…, output=Type) returns typed output"),
    "headers": "extra_headers sends headers",
    "timeouts": "timeout takes seconds, or Timeouts",
    "api_key": "options={'key': …} sets the key of a call",
    "base_url": "a provider of the configuration has a base_url",
}


@cache
def parameter_names(shape: Any) -> frozenset[str]:
    """Returns the names of a TypedDict's fields."""
    return frozenset(shape.__required_keys__ | shape.__optional_keys__)


def check_parameters(function: str, given: Mapping[str, object], shape: Any, positional: Sequence[str] = ()) -> None:
    """Raises an `UnknownParameter` for the first name that the TypedDict does not have. The message suggests a name."""
    known = parameter_names(shape)
    if known.issuperset(given):
        if not CHECKS.keys().isdisjoint(given):
            check_values(given, body="temperature" in known)
        return
    name = next(name for name in given if name not in known)
    meant = nearest_name(name, [*positional, *sorted(known)])
    hint = _HINTS.get(name) or (f"did you mean {meant!r}?" if meant else "")
    vendor = "fields of a vendor go into extra_body" if "extra_body" in known else ""
    raise UnknownParameter(function, name, "; ".join(filter(None, (hint, vendor))))
