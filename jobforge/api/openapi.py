"""OpenAPI document: FastAPI's, plus errors, roles and authentication schemes."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from jobforge import __version__
from jobforge.api.auth.permissions import RULES, Rule
from jobforge.api.caller import TENANT_HEADER
from jobforge.api.field_descriptions import FIELDS, PARAMETERS
from jobforge.api.problems import STATUSES, Problem
from jobforge.api.schema_field_descriptions import SCHEMA_FIELDS
from jobforge.errors import JobForgeError, Json
from jobforge.types.api_keys import Role

_METHODS = ("get", "put", "post", "patch", "delete")
_STATUS_DESCRIPTIONS = {
    400: "The body is not valid JSON, or the tenant is missing.",
    401: "The key, token or cookie is missing or not valid.",
    403: "The role or the scopes do not allow the request.",
    404: "The object does not exist or belongs to another tenant.",
    409: "The current state does not allow the request.",
    410: "The tenant has been erased or is being erased.",
    413: "The body or a payload in it is too large.",
    415: "The body is not application/json.",
    422: "A value is not allowed; `errors` lists the fields.",
    429: "Rate limit exceeded, or too many jobs are waiting; retry after Retry-After seconds.",
    500: "Internal error; the server's log has the details under the request ID.",
    503: "The database is unreachable or busy; retry after Retry-After seconds.",
}
_DESCRIPTION = """\
A multi-tenant, Postgres-native job server.

Authenticate with `Authorization: Bearer` and an API key (`jf_…`) or a JWT of your application.
Errors are problem+json with a stable `code`. Lists have `items`; pass `next` as `cursor`.
"""


def build_document(app: FastAPI) -> dict[str, Json]:
    """Return the OpenAPI 3.1 document."""
    document = get_openapi(
        title="JobForge",
        version=__version__,
        summary="Jobs in Postgres, over HTTP.",
        description=_DESCRIPTION,
        routes=app.routes,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    problem_schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem_schema.pop("$defs"))
    schemas["Problem"] = problem_schema
    _describe_fields(schemas)
    document["components"]["securitySchemes"] = _SECURITY_SCHEMES
    document["components"]["responses"] = {
        str(status): _refusal(status) for status in _STATUS_DESCRIPTIONS
    }
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                _complete(operations[method], RULES[method.upper(), path])
    return document


def list_error_codes(status: int) -> list[str]:
    """Return the error codes that occur with this status."""
    if status == 500:
        return ["internal"]
    return sorted(
        {kind.code for kind in _list_subclasses(JobForgeError) if _status_of(kind) == status}
    )


def _describe_fields(schemas: dict[str, Any]) -> None:
    for schema_name, schema in schemas.items():
        for name, field in schema.get("properties", {}).items():
            _describe(field, SCHEMA_FIELDS.get(f"{schema_name}.{name}") or FIELDS.get(name))


def _describe(item: dict[str, Any], description: str | None) -> None:
    """Add the description, unless the item or the type that it allows next to null has one."""
    options = [item, *item.get("anyOf", [])]
    if description and not any("description" in option for option in options):
        item["description"] = description


def _complete(operation: dict[str, Json], rule: Rule) -> None:
    for parameter in operation.get("parameters", []):
        name = parameter["name"]
        operation_name = f"{operation['operationId']}.{name}"
        _describe(parameter, PARAMETERS.get(operation_name) or PARAMETERS.get(name))
    operation["x-roles"] = sorted(Role) if rule.roles is None else sorted(rule.roles)
    if rule.roles is None:
        operation["security"] = []
        operation["x-roles"] = ["public"]
    else:
        operation["security"] = [{"key": []}, {"session": []}]
        operation.setdefault("parameters", []).append(_TENANT_PARAMETER)
    for status in sorted(_statuses(operation, rule)):
        operation["responses"][str(status)] = {"$ref": f"#/components/responses/{status}"}
    operation["responses"] = dict(sorted(operation["responses"].items()))


def _statuses(operation: dict[str, Json], rule: Rule) -> set[int]:
    statuses = {500}
    if rule.path != "/health":
        statuses |= {422, 503}
    if rule.roles is not None:
        statuses |= {400, 401, 403, 404, 410, 429}
    if rule.method != "GET":
        statuses |= {401, 403}
    if rule.method != "GET" and rule.roles is not None:
        statuses |= {409}
    if "requestBody" in operation:
        statuses |= {400, 413, 415}
    return statuses


def _refusal(status: int) -> dict[str, Any]:
    codes = ", ".join(f"`{code}`" for code in list_error_codes(status))
    refusal: dict[str, Any] = {
        "description": f"{_STATUS_DESCRIPTIONS[status]} Codes: {codes}.",
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        },
    }
    if status in {429, 503}:
        refusal["headers"] = {"Retry-After": {"schema": {"type": "integer", "minimum": 1}}}
    return refusal


def _status_of(kind: type[JobForgeError]) -> int | None:
    return next((status for parent, status in STATUSES if issubclass(kind, parent)), None)


def _list_subclasses(root: type[JobForgeError]) -> list[type[JobForgeError]]:
    leaves = [leaf for child in root.__subclasses__() for leaf in _list_subclasses(child)]
    return [root, *leaves]


_SECURITY_SCHEMES = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, `jf_…`, or a JWT of your application.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "jobforge_session",
        "description": "Set by POST /api/v1/session; `__Host-jobforge_session` over https.",
    },
}
_TENANT_PARAMETER = {
    "name": TENANT_HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 200},
    "description": "For a super admin: the tenant to act for, by ID or slug.",
}
