"""The worker package: one module per background task, assembled in worker_parts.py.

`Worker` is imported on first use. The zygote imports `jobforge.worker.isolation`, and with an eager
import the fork of every job would also copy asyncio and the database driver.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobforge.worker.worker import Worker

__all__ = ["Worker"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the type of a module attribute
    if name != "Worker":
        raise AttributeError(f"jobforge.worker has no {name}")
    from jobforge.worker.worker import Worker  # noqa: PLC0415 - lazy, see the module docstring

    return Worker
