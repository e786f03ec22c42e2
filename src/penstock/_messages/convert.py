"""`convert(body, "openai-chat", "anthropic")`: one protocol's request → another's, as its provider will take it.

read → what only the client's side knows → what the target's profile demands → what the caller asked for → write
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._diagnostics import Diagnostic, Diagnostics
from penstock._lenient_fields import Object, as_object
from penstock._messages import (
    call_pairing,
    carried_state,
    content_rules,
    context_trimming,
    foreign_state,
    identifiers,
    settings,
    turn_rules,
)
from penstock._messages.options import OPTIONS, ConvertOptions
from penstock._messages.request_codecs import profile_of, quirks_type, reader, typed_errors, writer
from penstock._messages.settings import changed_meaning, rename_options
from penstock._messages.traversal import survey_request
from penstock._option_checks import check_options
from penstock._protocols import protocol
from penstock._providers.model_identity import identify
from penstock._providers.thinking import Thinking, thinking_of
from penstock._strict_fields import parse_value, read_deep_body
from penstock._transforms.tool_names import CallIdPrefix, OriginalTool, RestoreToolNames
from penstock.errors import BadRequest, InputError, TooDeep, UnknownProtocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._request_writer import RequestDraft


class Restore(msgspec.Struct, omit_defaults=True):
    """What restores tool names and call ids in the answer. `protocol`: the client's."""

    protocol: str
    names: dict[str, OriginalTool] = {}
    ids: dict[str, str] = {}

    def stages(self) -> tuple[RestoreToolNames, ...]:
        """Returns stages for the `shaping` of a bridge; none if nothing was renamed."""
        if not self.names and not self.ids:
            return ()
        return (RestoreToolNames(self.names, protocol=self.protocol, ids=self.ids),)


class Converted(msgspec.Struct):
    """A body for the target, its diagnostics, and what restores the answer. `request`: the request that was written."""

    body: dict[str, Any]
    diagnostics: list[Diagnostic]
    restore: Restore
    request: rq.Request
    cleared: context_trimming.Cleared | None = None  # if context management removed something


def convert(
    body: Object | bytes | bytearray | str, source: str, target: str, **options: Unpack[ConvertOptions]
) -> Converted:
    """Converts a request of one protocol to another. Unknown or wrong options raise `InputError`.

    From a protocol to itself nothing is repaired, unless a profile is given.

    Examples:
        >>> messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        >>> converted = convert({"model": "m", "messages": messages}, "openai-chat", "anthropic")
        >>> converted.body["system"], converted.body["messages"]
        ('Be brief.', [{'role': 'user', 'content': 'Hi'}])
    """
    check_options("convert", options, OPTIONS)
    read, write = reader(source), writer(target)
    run = _Conversion(source, target, options)
    with typed_errors:
        return run.convert(run.read(body, read), write)


def convert_request(request: rq.Request, source: str, target: str, **options: Unpack[ConvertOptions]) -> Converted:
    """Converts a canonical request. `source`: the protocol of the client that gets the answer."""
    check_options("convert_request", options, OPTIONS)
    return convert_unchecked(request, source, target, options)


def convert_unchecked(request: rq.Request, source: str, target: str, options: ConvertOptions) -> Converted:
    """Does the same without a check of the options."""
    run, write = _Conversion(source, target, options), writer(target)
    with typed_errors:
        return run.convert(request, write)


def state_keys(request: rq.Request, source: str, **options: Unpack[ConvertOptions]) -> list[str]:
    """Returns the keys under which a store may have state for this request. Its rows are the option `state`.

    For stores that must not be read while a request is converted: `convert_request` then reads none.
    """
    if not [message for message in request.messages if message.role == "assistant"]:
        return []  # there is no answer yet
    return carried_state.state_keys_of(_undo_host_forms(request, source, options))


def _undo_host_forms(request: rq.Request, source: str, options: ConvertOptions) -> rq.Request:
    """Undoes what only the client needs: the prefix of call ids, a system prompt without the system role."""
    client = profile_of(source)
    prefix = options.get("call_id_prefix", client.prefix)
    if prefix:
        request = identifiers.restore_prefix(request, CallIdPrefix(prefix, reserved=client.reserved))
    return turn_rules.promote_system_prompt(request) if client.leads else request


class _Conversion:
    """One conversion: its profile, its diagnostics, and what restores the answer."""

    def __init__(self, source: str, target: str, options: ConvertOptions) -> None:
        profile = options.get("profile")
        self._source, self._options = source, options
        self._crosses = source.partition("@")[0] != target.partition("@")[0]
        self._repairs = profile is not None or self._crosses
        self.profile = profile or profile_of(target)
        self._target = protocol(target)
        self.notes = Diagnostics("messages")
        self._strict = False  # read by the strict parser, which lets no half characters through
        self.restore = Restore(source)
        self._cleared: context_trimming.Cleared | None = None
        self._signature = ""  # a placeholder for unknown thought signatures, if the model requires them

    def convert(self, request: rq.Request, write: Callable[[rq.Request, Any], RequestDraft]) -> Converted:
        """Applies every pass and writes the request."""
        requested = request.settings
        request = self.apply_passes(request)
        draft = self.write(write, request)
        target_options = self._target_options(request)
        diagnostics = [*request.diagnostics, *self.notes, *draft.diagnostics]
        names = changed_meaning(diagnostics, requested) if self._options.get("strict") else ()
        if names:
            lost = ", ".join(names)
            raise InputError(f"strict: the target cannot carry what changes the result: {lost}; leave it out")
        return Converted({**draft.body, **target_options}, diagnostics, self.restore, request, self._cleared)

    def _target_options(self, request: rq.Request) -> Object:
        """Returns the provider options of the target; those of other providers are reported."""
        if self._target.carries_options or not request.options:
            return {}
        keys = (self.profile.provider, *self.profile.options)
        options: Object = {}
        for key, fields in request.options.items():
            if key in keys:
                options.update(as_object(fields))
            elif fields:
                self.notes.add(
                    "loss-options", f"options for the provider {key!r} are left out: this is another", "options"
                )
        return rename_options(options, self.notes) if self._target.snake_case else options

    def read(self, body: Any, read: Callable[[Object], rq.Request]) -> rq.Request:
        """Reads a body. Inputs of tool calls may be deeper than the rest of a body."""
        try:
            return read(self.parse_body(body))
        except TooDeep as error:
            if not isinstance(body, bytes | bytearray | str):
                raise
            return read_deep_body(body if isinstance(body, str) else bytes(body), read, error)

    def parse_body(self, body: Any) -> Object:
        """Returns the body as an object. Text that is almost JSON is read leniently."""
        if isinstance(body, bytes | bytearray | str):
            body, self._strict = parse_value(body)
            if not self._strict:
                self.notes.add("loose-json", "the body is not strictly JSON and was read forgivingly")
        if not isinstance(body, dict):
            raise BadRequest("an object", body)
        return body  # pyright: ignore[reportUnknownVariableType]

    def apply_passes(self, request: rq.Request) -> rq.Request:
        model = self._options.get("model")
        if model:
            request = replace(request, model=model)
        request = self._restore_client_forms(request)
        if self._repairs:
            request = self._repair(request)
        return self._apply_options(request)

    def _restore_client_forms(self, request: rq.Request) -> rq.Request:
        """Undoes the client's forms, and restores the stored state."""
        request = self._replace_prompt_files(request)
        request = _undo_host_forms(request, self._source, self._options)
        rows, store, profile = self._options.get("state"), self._options.get("store"), self._options.get("profile")
        provider = profile.provider if profile is not None else ""  # a protocol's default profile names no provider
        if rows is None and store is not None and (keys := carried_state.state_keys_of(request)):
            rows = store.get(self._options.get("tenant", ""), keys)
        if self._repairs and self.profile.protocol == foreign_state.PROTOCOL:
            origin, maker = partial(carried_state.origin_of, found=rows or {}), identify(request.model).maker
            request = foreign_state.drop_foreign_ciphertext(request, origin, self.notes, provider=provider, maker=maker)
        return carried_state.restore_state(request, rows, self.notes, provider) if rows else request

    def _replace_prompt_files(self, request: rq.Request) -> rq.Request:
        """Replaces files in a system prompt that the host sends as assistant messages: a prompt holds only text."""
        if not self._repairs or not profile_of(self._source).leads:
            return request
        count = turn_rules.count_assistant_system_prompt(request, (rq.Text, rq.File))
        prompt = [replace(message, role="system") for message in request.messages[:count]]
        if not content_rules.has_file(prompt):
            return request
        how = self._options.get("images", "placeholder")
        holding = replace(self.profile.holding, roles=self.profile.holding.roles - {"system"})
        how = "placeholder" if how == "keep" else how
        placed = content_rules.place_files(rq.Request(messages=prompt), holding, how, self.notes).messages
        restored = [replace(message, role="assistant") for message in placed]
        return replace(request, messages=[*restored, *request.messages[count:]])

    def _repair(self, request: rq.Request) -> rq.Request:
        """Applies the rules of the profile. A survey of the request tells which of them are needed."""
        profile, notes = self.profile, self.notes
        orphans = self._options.get("orphans", "text")
        request = foreign_state.drop_foreign_state(request, notes)
        request = turn_rules.drop_empty_parts(request, notes)
        request = call_pairing.pair(request, notes, orphans=orphans, named=profile.answers)
        if self._crosses:
            request = turn_rules.drop_reasoning_only(request, profile.protocol, notes)
        survey = survey_request(request)
        if not self._strict and not (
            survey.is_plain and (not request.tools or content_rules.is_encodable(request.tools))
        ):
            request = content_rules.mend_texts(request, notes)
        if survey.has_files:
            request = content_rules.check_media(request, notes)
            request = content_rules.place_files(request, profile.holding, self._options.get("images", "keep"), notes)
        request = self._repair_turns(request, blank=survey.has_blank)
        if survey.has_wrapped_tools or not profile.names.fits_all(survey.tool_names):
            request, self.restore.names = identifiers.map_names(request, profile, notes)
        if not profile.ids.fits_all(survey.call_ids):
            request, self.restore.ids = identifiers.map_ids(request, profile.ids, notes)
        if survey.cache_points > profile.points > 0:
            request = context_trimming.limit_points(request, profile.points, notes)
        return request

    def _repair_turns(self, request: rq.Request, *, blank: bool) -> rq.Request:
        """Repairs the order of messages and roles."""
        profile, notes = self.profile, self.notes
        if blank:
            request = turn_rules.fill_empty(request, profile.empty, notes)
        request = turn_rules.place_system(request, profile.system, notes)
        if profile.alternate:
            request = turn_rules.alternate(request, notes, profile.protocol)
        return turn_rules.open_with_user(request, notes) if profile.opens else request

    def _apply_options(self, request: rq.Request) -> rq.Request:
        """Applies the options of the caller, and limits."""
        options, profile, notes = self._options, self.profile, self.notes
        if self._repairs:
            request = self._fit_model(request)
        maximum = options.get("max_output")
        if self._repairs or maximum:
            request = settings.limit_output(
                request,
                notes,
                maximum=maximum,
                minimum=profile.min_output,
                inside=profile.inside,
                required=self._target.requires_limit,
            )
        if options.get("context_management"):
            request = self._manage_context(request)
        if options.get("prompt_caching"):
            request = context_trimming.place_points(request, profile.points)
        return request

    def _fit_model(self, request: rq.Request) -> rq.Request:
        """Adapts the request to the model, by the facts of the caller or of the table.

        If source and target are the same protocol, sampling settings and the last turn stay as they are: the client
        gets the provider's own error.
        """
        options, profile, notes = self._options, self.profile, self.notes
        facts = options["thinking"] if "thinking" in options else thinking_of(request.model)
        if facts is not None and profile.thinking:
            request = self._fit_reasoning(request, facts)
        if self._target.carries_options or not (self._crosses or options.get("renamed")):
            return request
        if facts is not None:
            request = settings.fit_sampling(request, facts, notes)
            self._signature = profile.signature if facts.signed else ""
        prefills = profile_of(self._source).prefills
        return turn_rules.end_conversation(request, facts, notes, trims=profile.trims, prefills=prefills)

    def _fit_reasoning(self, request: rq.Request, facts: Thinking) -> rq.Request:
        """Converts reasoning settings to the form that the model takes."""
        profile = self.profile
        marks = as_object(as_object((request.extra or {}).get(profile.protocol)).get("_"))
        return settings.fit_reasoning(
            request,
            facts,
            profile.thinking,
            self.notes,
            inside=profile.inside,
            unthinking="unthinking" in marks and request.settings.budget is None,
        )

    def _manage_context(self, request: rq.Request) -> rq.Request:
        limit, refused = self._options.get("max_input") or 0, self._options.get("overflow", False)
        if not limit and not refused:
            self.notes.add("context-unknown", "context is not managed: how much the model takes was not said")
            return request
        count = self._options.get("count", context_trimming.estimate_tokens)
        return context_trimming.manage_context(
            request, self.notes, limit=limit, count=count, refused=refused, report=partial(setattr, self, "_cleared")
        )

    def write(self, write: Callable[[rq.Request, Any], RequestDraft], request: rq.Request) -> RequestDraft:
        try:
            return self._try_writing(write, request)
        except (BadRequest, UnknownProtocol):
            raise
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            # Our readers fill in `extra`, `data` and names as writers expect them; a request made elsewhere may not.
            raise BadRequest("extra, data and names as a reader of the protocol makes them", error) from error

    def _try_writing(self, write: Callable[[rq.Request, Any], RequestDraft], request: rq.Request) -> RequestDraft:
        quirks = self._options.get("quirks", self.profile.quirks)
        if self._signature:
            known = quirks if quirks is not None else quirks_type(self.profile.protocol)()
            quirks = replace(known, unsigned=known.unsigned or self._signature)
        try:
            return write(request, quirks)
        except (msgspec.DecodeError, UnicodeEncodeError):  # the input of a call is not JSON
            return write(content_rules.mend_inputs(request, self.notes), quirks)
