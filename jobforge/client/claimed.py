"""Jobs that a server lets a worker have, as a claim on a database answers them."""

import json
from datetime import datetime
from uuid import UUID

import orjson

from jobforge.calls.rows import Rows
from jobforge.errors import Json
from jobforge.types.jobs import ClaimedJob, sent


def claimed(answer: Json) -> Rows:
    return [_job(item) for item in answer["items"]]


def _job(item: Json) -> ClaimedJob:
    return ClaimedJob(
        UUID(item["tenant_id"]),
        UUID(item["job_id"]),
        item["lease"],
        item["definition"],
        item["version"],
        item["queue"],
        item["attempt"],
        item["max_attempts"],
        item["timeout_s"],
        sent(datetime.fromisoformat(item["started_at"])),
        item["source"],
        item["correlation_id"],
        item["traceparent"],
        item["idempotency_key"],
        item["tags"],
        _text(item["payload"]),
        _text(steps) if (steps := item.get("steps")) is not None else None,
        item.get("waited_s", 0.0),
    )


def _text(payload: Json) -> str:
    try:
        return orjson.dumps(payload).decode()
    except TypeError:  # it holds an integer of more than 64 bits
        return json.dumps(payload)
