"""The worker in parts, each one thing that it does all the time; worker.py puts them together.

`Worker` is imported when it is first used: a fork server imports `jobforge.worker.isolation`, and
every job would pay for the event loop and the driver.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobforge.worker.worker import Worker

__all__ = ["Worker"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class
    if name != "Worker":
        raise AttributeError(f"jobforge.worker has no {name}")
    from jobforge.worker.worker import Worker  # noqa: PLC0415 - see above

    return Worker
