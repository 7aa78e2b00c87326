"""Writes docs/api.md, the HTTP API reference, from the OpenAPI document and api_examples.md."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobforge.api import create_app
from jobforge.api.caller import TENANT_HEADER
from jobforge.config import Config

PAGE = Path(__file__).parent.parent / "docs" / "api.md"
_EXAMPLES = Path(__file__).with_name("api_examples.md")

_HEAD = """\
# HTTP API

This page lists every route of a JobForge server, with its parameters and responses. To learn how to
use the API, start with the [HTTP API guide](http.md).

- **Addresses:** the paths are relative to the server, by default `http://127.0.0.1:8700`.
- **Authentication:** send an API key or a token in the header `Authorization: Bearer`
  ([Authentication](http-auth.md)). Each route lists the roles that can use it; `public` routes need
  no key.
- **Tenant:** a super admin names the tenant in the header `X-JobForge-Tenant`, which all routes
  except those for health and sessions accept.
- **Bodies:** requests and responses are JSON. The types link to their [fields](#objects).
- **Lists:** *items of* a type means an object whose member `items` is a list of this type. A *page
  of* a type also has the member `next`: pass it as `cursor` to get the next page. On the last page,
  `next` is null.
- **Errors:** every route can respond with an [error](#errors), and almost all routes with the
  statuses COMMON. Each route lists its other statuses.

The examples use `$URL` for the address of the API, and `$KEY` for a super admin's key:

```console
$ export URL=http://127.0.0.1:8700/api/v1
$ export KEY=jf_…
```

For generated clients, a server serves the OpenAPI document at `/api/v1/openapi.json`, and
`jobforge openapi` prints it. This page is written from it.
"""
# What the routes of an area are for, and where to read about it.
_INTROS = {
    "jobs": "Create, find and change the jobs of a tenant. See [Concepts](concepts.md).",
    "stream": "Follow jobs as they run. See [Live stream](live-stream.md).",
    "definitions": "What jobs execute, and its settings. See [Limits](limits.md).",
    "queues": "The queues of the installation, their limits and pauses. See [Limits](limits.md).",
    "failures": "Dead jobs, grouped by cause. See [Dead jobs](howto/dead-jobs.md).",
    "operations": "Changes to many jobs, in the background. See [the guide](http.md).",
    "triggers": "Schedules and event triggers. See [Schedules](schedules.md).",
    "events": "Emit and find events. See [Events](events.md).",
    "workflows": "Workflows and batches. See [Workflows and batches](workflows.md).",
    "workers": "The worker processes. See [Workers](worker.md).",
    "worker": "The routes that a worker calls. See [Worker protocol](worker-protocol.md).",
    "tenants": "All tenants. See [Set up multiple tenants](howto/multi-tenant.md).",
    "keys": "API keys. See [Authentication](http-auth.md).",
    "connectors": "Configurations for requests to other services. See [Connectors](connectors.md).",
    "webhooks": "Notifications about finished jobs. See [Webhooks](webhooks.md).",
    "statistics": "Rates, times and usage. See [Statistics](statistics.md).",
    "audit": "Who changed what. See [Audit log](operations.md#audit-log).",
    "database": "The state of the installation. See [Doctor](doctor.md).",
    "session": "Sign in and out of the dashboard. See [Sessions](http-auth.md#sessions).",
    "health": "Health checks for load balancers. See [HTTP API guide](http.md#start-a-server).",
    "metrics": "Metrics for Prometheus. See [Metrics](metrics.md).",
}
_AREAS = {"worker": "Worker protocol"}
# Pydantic writes the largest integer of Postgres as a float, which rounds it up.
_MOST = 2**63 - 1
# Numbers without a bound of their own have this one, because JSON parsers differ above it.
_NO_BOUND = 1e15
_LIST = re.compile(r"(Page|Items)_(\w+)_")
_LIST_NAMES = {"Page": "page of", "Items": "items of"}


def page() -> str:
    document = create_app(Config()).openapi()
    common = _common_errors(document)
    head = _HEAD.replace("COMMON", ", ".join(common))
    parts = [head, *_routes(document, common), *_schemas(document), *_errors(document)]
    return "\n".join(parts)


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def _common_errors(document: dict[str, Any]) -> list[str]:
    """Return the error statuses that more than nine of ten routes can respond with."""
    operations = list(_operations(document))
    counts = Counter(
        status for each in operations for status in each["responses"] if status >= "400"
    )
    return sorted(status for status, count in counts.items() if count > len(operations) * 0.9)


def _routes(document: dict[str, Any], common: list[str]) -> Iterator[str]:
    areas: dict[str, list[str]] = {}
    examples = _read_examples()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            text = "\n".join(_route(method.upper(), path, operation, common))
            example = examples.pop(f"{method.upper()} {path}", "")
            areas.setdefault(operation["tags"][0], []).append(text + example)
    if examples:
        raise ValueError(f"examples of unknown routes: {list(examples)}")
    for area, routes in areas.items():
        yield f"## {_AREAS.get(area, area.capitalize())}\n\n{_INTROS[area]}\n"
        yield from routes


def _read_examples() -> dict[str, str]:
    """Return the text of each example by its route."""
    _, *parts = re.split(r"^### (.+)\n", _EXAMPLES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        route: f"\nExample:\n\n{text.strip()}\n"
        for route, text in zip(parts[::2], parts[1::2], strict=True)
    }


def _route(method: str, path: str, operation: dict[str, Any], common: list[str]) -> Iterator[str]:
    yield f"### {operation['summary']}\n\n`{method} {path}`\n"
    if "description" in operation:
        yield f"{operation['description']}\n"
    yield f"Roles: {', '.join(operation['x-roles'])}.\n"
    parameters = [
        each
        for each in operation.get("parameters", [])
        if each["in"] != "path" and each["name"] != TENANT_HEADER
    ]
    if parameters:
        yield "| Parameter | Type | Description |\n|---|---|---|"
        yield from map(_parameter, parameters)
        yield ""
    if "requestBody" in operation:
        yield f"Body: {_body(operation['requestBody'])}\n"
    yield f"Responses: {_responses(operation['responses'], common)}\n"


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    description = parameter.get("description", "")
    if "default" in schema:
        description = f"{description} Default `{json.dumps(schema['default'])}`.".strip()
    where = " (header)" if parameter["in"] == "header" else ""
    return f"| `{parameter['name']}`{where} | {_type(schema)} | {description} |"


def _body(body: dict[str, Any]) -> str:
    schema = body["content"]["application/json"]["schema"]
    return _type(schema)


def _responses(responses: dict[str, Any], common: list[str]) -> str:
    successes = []
    for status, response in responses.items():
        if status >= "400":
            continue
        kinds = response.get("content", {})
        bodies = [_type(kind.get("schema", {})) for kind in kinds.values()]
        successes.append(" ".join([status, " or ".join(filter(None, bodies))]).strip())
    text = f"{'; '.join(successes)}."
    more = [status for status in responses if status >= "400" and status not in common]
    if more:
        text += f" Other errors: {', '.join(more)}."
    return text


def _request_schemas(document: dict[str, Any]) -> set[str]:
    """Return the names of the schemas that clients send."""
    schemas = document["components"]["schemas"]
    waiting = [each["requestBody"] for each in _operations(document) if "requestBody" in each]
    names: set[str] = set()
    while waiting:
        for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(waiting.pop())):
            if name not in names:
                names.add(name)
                waiting.append(schemas[name])
    return names


def _schemas(document: dict[str, Any]) -> Iterator[str]:
    yield "## Objects\n"
    sent = _request_schemas(document)
    for name, schema in sorted(document["components"]["schemas"].items()):
        if _LIST.fullmatch(name):
            continue
        yield f"### {name}\n"
        if "description" in schema:
            yield f"{schema['description'].strip()}\n"
        if "enum" in schema:
            yield f"One of {', '.join(f'`{value}`' for value in schema['enum'])}.\n"
        if schema.get("properties"):
            required = schema.get("required", []) if name in sent else []
            yield "| Field | Type | Description |\n|---|---|---|"
            for field, inner in schema["properties"].items():
                mark = "Required." if field in required else ""
                description = " ".join(filter(None, [mark, field_description(inner)]))
                yield f"| `{field}` | {_type(inner)} | {description} |"
            yield ""
        for example in schema.get("examples", [])[:1]:
            yield f"```json\n{json.dumps(example, indent=2, ensure_ascii=False)}\n```\n"


def field_description(schema: dict[str, Any]) -> str:
    """Return the description of a field, or of the type that it allows next to null."""
    options = [schema, *schema.get("anyOf", [])]
    return next((each["description"] for each in options if "description" in each), "")


def _errors(document: dict[str, Any]) -> Iterator[str]:
    yield "## Errors\n\nAll errors are a [Problem](#problem) as `application/problem+json`.\n"
    yield "| Status | Meaning |\n|---|---|"
    for status, response in document["components"]["responses"].items():
        yield f"| {status} | {response['description']} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        found = _LIST.fullmatch(name)
        prefix = f"{_LIST_NAMES[found[1]]} " if found else ""
        element = found[2] if found else name
        return f"{prefix}[{element}](#{element.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kind = schema.get("format") or schema.get("type") or "any JSON"
    bounds = [
        f"{word} {_bound(schema[name])}"
        for name, word in _BOUNDS.items()
        if name in schema and schema[name] != _NO_BOUND
    ]
    return " ".join([kind, *bounds])


def _bound(value: float) -> str:
    return f"{min(int(value), _MOST):,}" if value == int(value) else f"{value:,}"


_BOUNDS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "maxLength": "up to",
}
