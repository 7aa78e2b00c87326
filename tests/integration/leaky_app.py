"""An app whose jobs write everything they know to every output. For test_redaction.py."""

import base64
import json
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import jobforge.redact
from jobforge import Cancel, Context, Dead, JobForge, Retry
from jobforge.redact import RedactionScope

SECRETS = ("file_a", "file_b", "file_c", "file.d", "variable_a", "variable-b")
VARIABLES = ("SMTP_PASSWORD", "BILLING_API_TOKEN", "REPORT_DSN", "PARTNER_CREDENTIALS")

PARTS_OF_REDACTION: list[tuple[object, str, Callable[..., Any]]] = [
    (jobforge.redact, "hide_assignments", lambda text, _: text),
    (jobforge.redact, "hide_private_keys", lambda text, _: text),
    (jobforge.redact, "hide_shapes", lambda text, _: text),
    (jobforge.redact, "is_secret_name", lambda _: False),
    (RedactionScope, "hide", lambda _, text: text),
]

if os.environ.get("LEAKY_APP") == "unredacted":
    # The control run: this process redacts nothing.
    for owner, name, stand_in in PARTS_OF_REDACTION:
        setattr(owner, name, stand_in)

jf = JobForge()
log = logging.getLogger("leaky")
# Written by each process that imports the app: the worker and the zygote.
log.warning("the database is %s", os.environ.get("JOBFORGE_DATABASE_URL"))
log.warning("the environment is %s", {name: os.environ.get(name) for name in VARIABLES})


@jf.job(key="inline", isolation="inline", retry=Retry(max_attempts=1))
async def leak_inline(ctx: Context, end: str, data: dict[str, Any], own: dict[str, str]) -> Any:
    return _leak(ctx, end, data, own)


@jf.job(key="isolated", retry=Retry(max_attempts=1))
def leak_isolated(ctx: Context, end: str, data: dict[str, Any], own: dict[str, str]) -> Any:
    return _leak(ctx, end, data, own)


@jf.job(key="strict", isolation="inline", retry=Retry(max_attempts=1))
async def leak_nothing(password: int) -> None:
    """Receive payloads that do not match."""


jf.command(
    "shout",
    argv=["sh", "-c", 'echo "$1"; echo "$1" >&2; exit 3', "sh", "password={password}"],
    parameters={
        "type": "object",
        "properties": {"password": {"type": "string"}},
        "required": ["password"],
    },
    retry=Retry(max_attempts=1),
)


@jf.on_start
def announce(ctx: Context) -> None:
    log.info("starting with %s", ctx.payload)


@jf.on_fail
def mourn(ctx: Context, error: dict[str, Any]) -> None:
    log.error("failed: %s", error, extra={"payload": ctx.payload})


def _leak(ctx: Context, end: str, data: dict[str, Any], own: dict[str, str]) -> Any:
    """Write the payload, and for each output the value of that name in `own`."""
    known = [*map(ctx.secret, SECRETS)]
    given = {name: os.environ.get(name) for name in VARIABLES}
    texts = [str(data), json.dumps(data), json.dumps(json.dumps(data)), *data["texts"]]
    for stream in (sys.stdout, sys.stderr):
        print(own["output"], *texts, given, sep="\n", file=stream)
        print("the secrets are", *known, file=stream)
        print(*(base64.b64encode(f"ada:{each}".encode()).decode() for each in known), file=stream)
    for text in (*texts, *known, own["log"]):
        ctx.log.info(text)
        log.info(text)
        log.info("got %s", text, extra={"about": data})
    ctx.log.error("all of it", data=data, given=given, known=known)
    ctx.progress(1, 2, f"{own['progress']} {known[0]} {given}")
    ctx.emit("leak", {"data": data, "known": known, "given": given, "own": own["event"]})
    return _end(end, f"{own['error']} {texts} {known} {given}", data)


def _end(end: str, words: str, data: dict[str, Any]) -> Any:
    match end:
        case "error":
            raise RuntimeError(words)
        case "dead":
            raise Dead(words)
        case "cancel":
            raise Cancel(words)
    return data
