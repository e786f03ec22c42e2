"""What Ollama's clients ask for beside turns: which models there are and what they can, what runs, what is spoken here.

Nothing is pulled, loaded or kept in memory by a gateway: what asks for that is answered as done where it does no harm,
and refused in one line where it would. Leans on the catalogue.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick
from penstock.errors import BadRequest
from penstock.gateway.access import refused
from penstock.providers.models import NAME

if TYPE_CHECKING:
    from penstock.gateway.catalogue import Entry
    from penstock.gateway.doors.door import Visit
    from penstock.gateway.services import Services
    from penstock.pick import Object

SPOKEN = "0.12.6"  # the version of Ollama whose API this is: clients look for what they need
WHEN = "2026-01-01T00:00:00Z"
# What a model can do, in Ollama's words.
WORDS = {
    "chat": "completion", "tools": "tools", "images": "vision", "reasoning": "thinking", "embeddings": "embedding",
    "fim": "insert",
}  # fmt: skip
_encode = msgspec.json.encode


def listed(entry: Entry) -> Object:
    """A model in a list. Its digest is of its name: the same for as long as it is called so."""
    return {
        "name": entry.name, "model": entry.name, "modified_at": WHEN, "size": 0,
        "digest": sha256(entry.name.encode("utf-8", "replace")).hexdigest(), "details": _details(entry),
    }  # fmt: skip


def _details(entry: Entry) -> Object:
    family = entry.model.family or entry.model.provider
    return {
        "parent_model": "", "format": "", "family": family, "families": [family], "parameter_size": "",
        "quantization_level": "",
    }  # fmt: skip


async def shown(services: Services, visit: Visit) -> bytes:
    """`POST /api/show`."""
    name = name_of(visit.body())
    entry = await services.catalogue.find(visit.caller, name)
    visit.caller.check(name)
    model = entry.model
    family = model.family or model.provider
    info: Object = {"general.architecture": family, "general.basename": model.name or name}
    if model.context or model.max_input:
        info[f"{family}.context_length"] = model.context or model.max_input
    made = {
        "license": "", "modelfile": f"FROM {name}\n", "parameters": "", "template": "{{ .Prompt }}",
        "details": _details(entry), "model_info": info, "modified_at": WHEN,
        "capabilities": _abilities(entry),
    }  # fmt: skip
    return _encode(made)


def _abilities(entry: Entry) -> list[str]:
    """In Ollama's words. A model of which nothing but the name is known may well call tools."""
    can = entry.model.capabilities
    if "chat" in can and entry.model.source.get("capabilities") == NAME:
        can |= {"tools"}
    return [word for ability, word in WORDS.items() if ability in can] or ["completion"]


async def running(_: Services, __: Visit) -> bytes:
    """`GET /api/ps`: nothing is loaded here."""
    return _encode({"models": []})


async def version(_: Services, __: Visit) -> bytes:
    """`GET /api/version`."""
    return _encode({"version": SPOKEN})


async def unserved(_: Services, visit: Visit) -> bytes:
    """What would change which models there are."""
    what = visit.path.rpartition("/")[2]
    said = f"{what}: models are not kept here, only reached; GET /api/tags lists them, penstock.toml names more"
    raise refused(501, "invalid", said, code="not_served")


def name_of(body: Object) -> str:
    """The model's name, in the newer word or the older."""
    found = pick.text(body, "model") or pick.text(body, "name")
    if not found:
        raise BadRequest("a model's name", body.get("model"), "model")
    return found


# ── loading ───────────────────────────────────────────────────────────────────────────────────────


def loads(body: Object) -> bool:
    """Whether a request says nothing: Ollama then loads the model, or lets it go."""
    return not any(body.get(key) for key in ("prompt", "messages", "images", "suffix", "system"))


async def loaded(services: Services, visit: Visit) -> bytes:
    """The answer to it: there is nothing to load, but the model must be one."""
    body = visit.body()
    name = name_of(body)
    visit.caller.check(name)
    services.catalogue.target(name)
    gone = body.get("keep_alive") in (0, "0", "0s", "0m")
    said: dict[str, Any] = {"response": ""} if visit.path.endswith("generate") else {}
    if not said:
        said = {"message": {"role": "assistant", "content": ""}}
    when = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return _encode(
        {"model": name, "created_at": when, **said, "done": True, "done_reason": "unload" if gone else "load"}
    )
