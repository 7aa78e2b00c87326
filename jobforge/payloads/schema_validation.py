"""Validates payloads against the JSON Schema with which a definition was registered.

An unusable schema does not reject payloads, because the worker validates them again.
"""

import jsonschema_rs

from jobforge.errors import Invalid, InvalidPayload, Json
from jobforge.observability import logs

Validator = jsonschema_rs.Draft202012Validator

_MOST_FAULTS = 20


def compile_validator(definition: str, schema: Json) -> Validator | None:
    """Return a validator; None without a schema, or if the schema is unusable."""
    if not isinstance(schema, dict):
        return None
    try:
        return compile_schema(schema)
    except Invalid as error:
        reason = error.message
        logs.emit("definition.unusable_schema", "warning", definition=definition, reason=reason)
        return None


def compile_schema(schema: dict[str, Json]) -> Validator:
    """Return a validator; raise Invalid if the schema is unusable."""
    try:
        # RegexOptions matches patterns in linear time; the retriever blocks a remote $ref.
        return Validator(
            schema,
            mask="the value",  # it may be a secret
            pattern_options=jsonschema_rs.RegexOptions(),
            retriever=_refuse_to_fetch,
        )
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise Invalid(str(error)) from error


def check_payload(validator: Validator | None, payload: Json, path: str = "payload") -> None:
    """Raise InvalidPayload with every fault (at most 20); `path` is prepended to their fields."""
    if validator is None or validator.is_valid(payload):
        return
    faults = []
    for fault in validator.iter_errors(payload):
        location = ".".join([path, *map(str, fault.instance_path)])
        faults.append({"field": location, "message": fault.message, "type": "schema"})
        if len(faults) == _MOST_FAULTS:
            break
    first = faults[0]
    raise InvalidPayload(
        f"{first['field']}: {first['message']}", field=first["field"], detail={"errors": faults}
    )


def _refuse_to_fetch(uri: str) -> Json:
    raise ValueError(f"{uri}: remote references are not supported")
