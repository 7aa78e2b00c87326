"""Jobs as they are shown: secrets in payloads, results, errors, notes and tails are masked."""

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from jobforge.errors import Json
from jobforge.redact import MARKER, mask, mask_text
from jobforge.types.audit import AuditEntry
from jobforge.types.connectors import ConnectorConfig
from jobforge.types.events import Event
from jobforge.types.failures import FailureGroup
from jobforge.types.job_history import Attempt, JobEvent, JobHistory, StoredStep
from jobforge.types.jobs import Enqueued, Job, JobListing
from jobforge.types.triggers import Trigger
from jobforge.types.webhooks import Webhook
from jobforge.types.workflows import WorkflowDetail, WorkflowInfo


def made_jobs(jobs: Iterable[Enqueued]) -> list[dict[str, Json]]:
    return [{"id": job.job_id, "status": job.status} for job in jobs]


def masked_history(history: JobHistory) -> JobHistory:
    return replace(
        history,
        job=masked_job(history.job),
        attempts=masked_attempts(history.attempts),
        events=masked_events(history.events),
    )


def masked_job(job: Job) -> Job:
    return replace(
        job,
        payload=mask(job.payload),
        result=mask(job.result),
        error=mask(job.error),
        cancel_reason=_text(job.cancel_reason),
    )


def masked_listings(jobs: Iterable[JobListing]) -> list[JobListing]:
    return [job if job.error is None else replace(job, error=mask(job.error)) for job in jobs]


def masked_attempts(attempts: Iterable[Attempt]) -> list[Attempt]:
    return [
        replace(
            attempt,
            error=mask(attempt.error),
            stdout_tail=_text(attempt.stdout_tail),
            stderr_tail=_text(attempt.stderr_tail),
        )
        for attempt in attempts
    ]


def masked_events(events: Iterable[JobEvent]) -> list[JobEvent]:
    return [replace(event, data=mask(event.data)) for event in events]


def masked_event(event: Event) -> Event:
    return replace(event, data=mask(event.data))


def masked_trigger(trigger: Trigger) -> Trigger:
    return replace(trigger, payload=mask(trigger.payload))


def masked_steps(steps: Iterable[StoredStep]) -> list[StoredStep]:
    return [replace(step, result=mask(step.result), match=mask(step.match)) for step in steps]


def masked_workflow(workflow: WorkflowInfo) -> WorkflowInfo:
    return replace(workflow, input=mask(workflow.input), callbacks=mask(workflow.callbacks))


def masked_detail(detail: WorkflowDetail) -> WorkflowDetail:
    return replace(
        detail,
        workflow=masked_workflow(detail.workflow),
        nodes=[
            node if node.error is None else replace(node, error=mask(node.error))
            for node in detail.nodes
        ],
        result=mask(detail.result),
    )


def masked_failures(groups: Iterable[FailureGroup]) -> list[FailureGroup]:
    return [replace(group, error=mask(group.error)) for group in groups]


def masked_audit(entries: Iterable[AuditEntry]) -> list[AuditEntry]:
    return [replace(entry, detail=mask(entry.detail)) for entry in entries]


def masked_webhook(webhook: Webhook) -> Webhook:
    """As a viewer sees it: the path of its URL may hold a token."""
    return replace(webhook, url=_origin_of(webhook.url))


def masked_connector(config: ConnectorConfig) -> ConnectorConfig:
    """As a viewer sees it: its URL without the path, and the names of its headers."""
    shown = dict(config.settings)
    if isinstance(shown.get("url"), str):
        shown["url"] = _origin_of(shown["url"])
    if isinstance(shown.get("headers"), dict):
        shown["headers"] = dict.fromkeys(shown["headers"], MARKER)
    return replace(config, settings=shown)


def _origin_of(url: str) -> str:
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    has_more = parts.path not in {"", "/"} or parts.query or parts.fragment
    return f"{origin}/{MARKER}" if has_more else f"{origin}/"


def _text(text: str | None) -> str | None:
    return None if text is None else mask_text(text)
