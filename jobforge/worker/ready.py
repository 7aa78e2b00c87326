"""Claimed jobs that have not been started: answers as they came, and the jobs of the first.

An answer is read when its jobs are started: by then the next claim is on its way.
"""

from collections import deque

from jobforge.calls import Answer
from jobforge.job import ClaimedJob
from jobforge.meters import Meters


class Ready:
    """Each job comes with the end of its lease by our own clock."""

    def __init__(self, meters: Meters | None = None) -> None:
        self._answers: deque[tuple[Answer[list[ClaimedJob]], float]] = deque()
        self._meters = meters
        self.jobs: deque[tuple[ClaimedJob, float]] = deque()

    def __bool__(self) -> bool:
        return bool(self.jobs or self._answers)

    def add(self, answer: Answer[list[ClaimedJob]], deadline: float) -> None:
        self._answers.append((answer, deadline))

    async def read(self) -> None:
        """The next answer, when there are no more jobs of the last."""
        if self.jobs or not self._answers:
            return
        answer, deadline = self._answers.popleft()  # first: one that cannot be read blocks no other
        jobs = await answer.read()
        self.jobs.extend([(job, deadline) for job in jobs])
        if self._meters is not None:
            self._meters.receive(jobs)
