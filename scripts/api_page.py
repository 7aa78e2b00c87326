"""Writes docs/api.md, the HTTP API reference, from the OpenAPI document."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobforge.api import create_app
from jobforge.api.caller import TENANT_HEADER
from jobforge.config import Config

PAGE = Path(__file__).parent.parent / "docs" / "api.md"

_HEAD = """\
# The HTTP API

`scripts/api_page.py` writes this page from the OpenAPI document. A server serves the document at
`/api/v1/openapi.json`, and `jobforge openapi` prints it. [http.md](http.md) is the guide to keys,
errors, pagination and idempotent requests. All routes except those for health and sessions accept
the header `X-JobForge-Tenant`, in which an operator specifies the tenant to act for.
"""


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} written")
    return 0


def page() -> str:
    document = create_app(Config()).openapi()
    parts = [_HEAD, *_routes(document), *_schemas(document), *_errors(document)]
    return "\n".join(parts)


def _routes(document: dict[str, Any]) -> Iterator[str]:
    areas: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            text = "\n".join(_route(method.upper(), path, operation))
            areas.setdefault(operation["tags"][0], []).append(text)
    for area, routes in areas.items():
        yield f"## {area.capitalize()}\n"
        yield from routes


def _route(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
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
    yield f"Responses: {_responses(operation['responses'])}\n"


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


def _responses(responses: dict[str, Any]) -> str:
    successes = []
    for status, response in responses.items():
        if status >= "400":
            continue
        kinds = response.get("content", {})
        bodies = [_type(kind.get("schema", {})) for kind in kinds.values()]
        successes.append(" ".join([status, " or ".join(filter(None, bodies))]).strip())
    errors = ", ".join(status for status in responses if status >= "400")
    return f"{'; '.join(successes)}. Errors: {errors}."


def _schemas(document: dict[str, Any]) -> Iterator[str]:
    yield "## Objects\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"### {name}\n"
        if "description" in schema:
            yield f"{schema['description'].strip()}\n"
        if "enum" in schema:
            yield f"One of {', '.join(f'`{value}`' for value in schema['enum'])}.\n"
        if schema.get("properties"):
            required = schema.get("required", [])
            yield "| Field | Type | Description |\n|---|---|---|"
            for field, inner in schema["properties"].items():
                mark = "required" if field in required else ""
                description = " ".join(filter(None, [mark, inner.get("description", "")]))
                yield f"| `{field}` | {_type(inner)} | {description} |"
            yield ""
        for example in schema.get("examples", [])[:1]:
            yield f"```json\n{json.dumps(example, indent=2, ensure_ascii=False)}\n```\n"


def _errors(document: dict[str, Any]) -> Iterator[str]:
    yield "## Errors\n\nAll errors are a [Problem](#problem) as `application/problem+json`.\n"
    yield "| Status | Meaning |\n|---|---|"
    for status, response in document["components"]["responses"].items():
        yield f"| {status} | {response['description']} |"
    yield ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kind = schema.get("format") or schema.get("type") or "any JSON"
    bounds = [f"{word} {schema[name]:,}" for name, word in _BOUNDS.items() if name in schema]
    return " ".join([kind, *bounds])


_BOUNDS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "maxLength": "up to",
}

if __name__ == "__main__":
    sys.exit(main())
