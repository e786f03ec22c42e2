"""The OpenAPI description of the admin API, made from its routes and types."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._gateway.admin_api import PREFIX, ROUTES
from penstock._gateway.admin_records import ErrorBody
from penstock._version import __version__

if TYPE_CHECKING:
    from penstock._gateway.admin_calls import AdminRoute

_ABOUT = (
    "Keys, teams, limits, providers, usage and the audit log of a penstock gateway. Every request needs a gateway key "
    "with the role viewer (to read) or admin, in Authorization: Bearer or x-penstock-key."
)
_STATUSES = {
    "400": "A value is not valid; `field` names it",
    "401": "No key was sent, or it is not known",
    "403": "The key may not do this, or a page of another site asks",
}
_MORE_STATUSES = {
    "404": "There is no such record",
    "409": "The record exists already, is in use, or stands in the configuration",
    "412": "If-Match names another content: somebody changed the record meanwhile",
}


@cache
def describe_api() -> dict[str, Any]:
    """Return the description, OpenAPI 3.1."""
    types = [route.result for route in ROUTES] + [route.body for route in ROUTES] + [ErrorBody]
    named = [one for one in dict.fromkeys(types) if hasattr(one, "__struct_fields__")]
    schemas, components = msgspec.json.schema_components(named, ref_template="#/components/schemas/{name}")
    by_type = dict(zip(named, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe_route(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": "penstock admin API", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


class RouteDescription(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An operation of OpenAPI."""

    operation_id: str
    summary: str
    parameters: list[dict[str, Any]]
    responses: dict[str, Any]
    request_body: dict[str, Any] | None = None


def _describe_route(route: AdminRoute, schemas: dict[Any, Any]) -> RouteDescription:
    words = route.path.removeprefix(f"{PREFIX}/").replace("{name}", "one").replace(".", "/").split("/")
    required = "name" in getattr(route.body, "__struct_fields__", ())
    body = {"required": required, "content": _json(schemas[route.body])} if route.body is not None else None
    return RouteDescription(
        operation_id="_".join([route.method.lower(), *words]),
        summary=route.summary,
        parameters=_describe_parameters(route),
        responses=_describe_responses(route, schemas),
        request_body=body,
    )


def _describe_parameters(route: AdminRoute) -> list[dict[str, Any]]:
    text = {"type": "string"}
    rows: list[dict[str, Any]] = []
    if "{name}" in route.path:
        rows.append({"name": "name", "in": "path", "required": True, "schema": text})
    rows += [{"name": name, "in": "query", "description": does, "schema": text} for name, does in route.query.items()]
    if route.tagged and route.method != "GET":
        does = "the ETag of the content that was read; the change is refused if there is another one now"
        rows.append({"name": "If-Match", "in": "header", "description": does, "schema": text})
    return rows


def _describe_responses(route: AdminRoute, schemas: dict[Any, Any]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": route.summary}
    if route.result is not None:
        success["content"] = _json(schemas.get(route.result, {"type": "object"}))
    if route.tagged and route.result is not None:
        success["headers"] = {"ETag": {"description": "names this content", "schema": {"type": "string"}}}
    more = _MORE_STATUSES if route.tagged or route.body is not None or "{name}" in route.path else {}
    error = {"content": _json(schemas[ErrorBody])}
    failures = {status: {"description": does, **error} for status, does in {**_STATUSES, **more}.items()}
    return {str(route.status): success, **failures}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
