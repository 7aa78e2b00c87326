"""The follow-up job that runs the hooks of a finished job.

The engine enqueues it when a job finishes, no matter what finished the job: its worker, the reaper,
a cancel request or its expiry. The follow-up job is retried like any other, so when one hook fails,
all hooks of the job run again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import BaseModel

from jobforge.errors import Json
from jobforge.payloads.signature import Arguments
from jobforge.sdk.definition import Definition
from jobforge.sdk.definition_settings import DefinitionSettings, ProcessLimits
from jobforge.sdk.engine_client import EngineClient
from jobforge.sdk.hooks import Hook, Hooks, run_hook
from jobforge.types.jobs import State
from jobforge.types.jsonb import encode

if TYPE_CHECKING:
    from jobforge.sdk.context import Context


class HookPayload(BaseModel):
    """Payload of the job that runs hooks: the finished job as the engine describes it."""

    job_id: UUID
    definition: str
    version: int
    state: State
    attempt: int
    payload: dict[str, Json] = {}
    error: dict[str, Json] | None = None
    result: Json = None
    reason: str | None = None


class HooksDefinition(Definition[[HookPayload], None]):
    """Runs the hooks of another definition after one of its jobs has finished."""

    has_artifacts_in_payload = True

    def __init__(self, of: Definition[..., Any], client: EngineClient, app_hooks: Hooks) -> None:
        self._hooked_definition = of
        settings = DefinitionSettings(
            key=f"{of.settings.key}:hooks",
            version=of.settings.version,
            queue=of.settings.queue,
            isolation=of.settings.isolation,
            limits=ProcessLimits(),
            description=f"The hooks of {of.settings.key}.",
        )
        self._groups = (of.hooks, app_hooks)
        super().__init__(self._run, settings, client, Hooks(_ignore_change))

    @property
    def served_versions(self) -> tuple[str, ...]:
        """Hooks run for the jobs of every version that the definition serves."""
        key = self.settings.key
        return tuple(
            f"{key}@{name.rpartition('@')[2]}" for name in self._hooked_definition.served_versions
        )

    def parse_arguments_json(self, version: int, payload_json: str) -> Arguments:  # noqa: ARG002 - one payload format for all versions
        return self.parameters.read_json_arguments(payload_json)

    async def _run(self, ctx: "Context", ended: HookPayload) -> None:
        result = (
            self._hooked_definition.result.read(ended.result)
            if ended.state is State.SUCCEEDED
            else None
        )
        job_ctx = ctx.with_job_fields(
            job_id=ended.job_id,
            definition=ended.definition,
            version=ended.version,
            attempt=ended.attempt,
            payload_json=encode(ended.payload, "payload"),
        )
        await _run_hooks(self._groups, job_ctx, ended, result)


async def _run_hooks(
    groups: Sequence[Hooks],
    ctx: "Context",
    ended: HookPayload,
    result: Any,  # noqa: ANN401 - the job's result
) -> None:
    """Run all hooks, even when one fails; then raise the first failure."""
    failures = [
        failure
        for group in groups
        for hook, args in _select_hooks(group, ended, result)
        if (failure := await run_hook(hook, ctx, *args)) is not None
    ]
    if failures:
        raise failures[0]


def _select_hooks(
    hooks: Hooks,
    ended: HookPayload,
    result: Any,  # noqa: ANN401 - the job's result
) -> list[tuple[Hook, tuple[Any, ...]]]:
    due: list[tuple[Hook, tuple[Any, ...]]] = []
    if ended.state is State.SUCCEEDED:
        due += [(hook, (result,)) for hook in hooks.success]
    if ended.state is State.DEAD:
        due += [(hook, (ended.error or {},)) for hook in hooks.fail]
    return due + [(hook, (ended.state,)) for hook in hooks.end]


def _ignore_change() -> None:
    """Do nothing: a HooksDefinition has no hooks of its own."""
