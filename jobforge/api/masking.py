"""Masks secrets in payloads, results, errors, notes and output tails before they are returned."""

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from jobforge.redact import MARKER, mask, mask_text
from jobforge.types.audit import AuditEntry
from jobforge.types.connectors import ConnectorConfig
from jobforge.types.events import Event
from jobforge.types.failures import FailureGroup
from jobforge.types.job_history import Attempt, JobEvent, JobHistory, StoredStep
from jobforge.types.jobs import Job, JobListing
from jobforge.types.triggers import Trigger
from jobforge.types.webhooks import Webhook
from jobforge.types.workflows import WorkflowDetail, WorkflowInfo


def mask_history(history: JobHistory) -> JobHistory:
    return replace(
        history,
        job=mask_job(history.job),
        attempts=mask_attempts(history.attempts),
        events=mask_job_events(history.events),
    )


def mask_job(job: Job) -> Job:
    return replace(
        job,
        payload=mask(job.payload),
        result=mask(job.result),
        error=mask(job.error),
        cancel_reason=_mask_optional_text(job.cancel_reason),
    )


def mask_listings(jobs: Iterable[JobListing]) -> list[JobListing]:
    return [job if job.error is None else replace(job, error=mask(job.error)) for job in jobs]


def mask_attempts(attempts: Iterable[Attempt]) -> list[Attempt]:
    return [
        replace(
            attempt,
            error=mask(attempt.error),
            stdout_tail=_mask_optional_text(attempt.stdout_tail),
            stderr_tail=_mask_optional_text(attempt.stderr_tail),
        )
        for attempt in attempts
    ]


def mask_job_events(events: Iterable[JobEvent]) -> list[JobEvent]:
    return [replace(event, data=mask(event.data)) for event in events]


def mask_event(event: Event) -> Event:
    return replace(event, data=mask(event.data))


def mask_trigger(trigger: Trigger) -> Trigger:
    return replace(trigger, payload=mask(trigger.payload))


def mask_steps(steps: Iterable[StoredStep]) -> list[StoredStep]:
    return [replace(step, result=mask(step.result), match=mask(step.match)) for step in steps]


def mask_workflow(workflow: WorkflowInfo) -> WorkflowInfo:
    return replace(workflow, input=mask(workflow.input), callbacks=mask(workflow.callbacks))


def mask_workflow_detail(detail: WorkflowDetail) -> WorkflowDetail:
    return replace(
        detail,
        workflow=mask_workflow(detail.workflow),
        nodes=[
            node if node.error is None else replace(node, error=mask(node.error))
            for node in detail.nodes
        ],
        result=mask(detail.result),
    )


def mask_failures(groups: Iterable[FailureGroup]) -> list[FailureGroup]:
    return [replace(group, error=mask(group.error)) for group in groups]


def mask_audit(entries: Iterable[AuditEntry]) -> list[AuditEntry]:
    return [replace(entry, detail=mask(entry.detail)) for entry in entries]


def mask_webhook(webhook: Webhook) -> Webhook:
    """Mask a webhook for viewers: the path of its URL may contain a token."""
    return replace(webhook, url=_mask_url_path(webhook.url))


def mask_connector(config: ConnectorConfig) -> ConnectorConfig:
    """Mask a connector for viewers: its URL without the path, its headers without their values."""
    settings = dict(config.settings)
    if isinstance(settings.get("url"), str):
        settings["url"] = _mask_url_path(settings["url"])
    if isinstance(settings.get("headers"), dict):
        settings["headers"] = dict.fromkeys(settings["headers"], MARKER)
    return replace(config, settings=settings)


def _mask_url_path(url: str) -> str:
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    has_more = parts.path not in {"", "/"} or parts.query or parts.fragment
    return f"{origin}/{MARKER}" if has_more else f"{origin}/"


def _mask_optional_text(text: str | None) -> str | None:
    return None if text is None else mask_text(text)
