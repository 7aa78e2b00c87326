"""Payloads against the JSON Schema that a definition's parameters were registered with.

A schema that cannot be used is no reason to refuse a payload: the worker checks it again.
"""

import jsonschema_rs

from jobforge.errors import InvalidPayload, Json
from jobforge.observability import logs

Validator = jsonschema_rs.Draft202012Validator

_MOST_FAULTS = 20


def compile_validator(definition: str, schema: Json) -> Validator | None:
    """None when there is no schema, or none that can be used."""
    if not isinstance(schema, dict):
        return None
    try:
        return Validator(
            schema,
            mask="the value",  # it may be a secret
            pattern_options=jsonschema_rs.RegexOptions(),
            retriever=_refuse_to_fetch,
        )
    except (ValueError, jsonschema_rs.ValidationError) as error:
        logs.emit("definition.unusable_schema", "warning", definition=definition, reason=str(error))
        return None


def check_payload(validator: Validator | None, payload: Json, path: str = "payload") -> None:
    """Raises InvalidPayload, with every fault; `path` leads to the payload."""
    if validator is None or validator.is_valid(payload):
        return
    faults = []
    for fault in validator.iter_errors(payload):
        where = ".".join([path, *map(str, fault.instance_path)])
        faults.append({"field": where, "message": fault.message, "type": "schema"})
        if len(faults) == _MOST_FAULTS:
            break
    first = faults[0]
    raise InvalidPayload(
        f"{first['field']}: {first['message']}", field=first["field"], detail={"errors": faults}
    )


def _refuse_to_fetch(uri: str) -> Json:
    raise ValueError(f"{uri} is not fetched")
