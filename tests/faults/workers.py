"""Workers as real processes: started by the command line, and killed, drained or frozen."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cluster import wait_until
from faults.oracle import is_process_of, now

APP = Path(__file__).with_name("app.py")
LOG_LINES = 30


@dataclass(eq=False, slots=True)
class Worker:
    """A worker process and its descendants."""

    process: "subprocess.Popen[bytes]"
    log: Path
    started: float = field(default_factory=now)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        """Ask the worker to drain, without waiting for its end."""
        self.process.terminate()

    def wait(self, seconds: float = 30) -> int:
        return self.process.wait(seconds)

    def tree(self) -> list[int]:
        """Return the PIDs of the worker, first, and of its descendants."""
        return [self.pid, *_descendants(self.pid)]

    @contextlib.contextmanager
    def frozen(self, pids: list[int]) -> Iterator[None]:
        """Stop some processes of the tree; the worker itself should be among them."""
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                _signal(pid, signal.SIGCONT)

    def log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])


@dataclass(slots=True)
class WorkerGroup:
    """The workers of a run; none survives it."""

    url: str
    folder: Path
    name: str = "worker"
    lease_s: float = 2.0
    heartbeat_s: float = 0.5
    drain_s: float = 10.0
    slots: int = 4
    command: Sequence[str] = (sys.executable, "-m", "jobforge", "worker", str(APP))
    members: list[Worker] = field(default_factory=list)
    _started: list[Worker] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._started:
            descendants = _descendants(worker.pid) if worker.is_alive else []
            worker.kill()
            for pid in descendants:
                _kill_descendant(pid, worker)

    def start(self, **environment: str) -> Worker:
        """Start another worker; it registers some moments later."""
        log = self.folder / f"{self.name}-{len(self._started) + 1}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self.command, "--queues", f"faults:{self.slots}"],
                cwd=self.folder,
                env=self._environment() | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        worker = Worker(process, log)
        self.members.append(worker)
        self._started.append(worker)
        return worker

    def replace(self, worker: Worker) -> Worker:
        """Start a worker in place of one that has ended, or is about to."""
        self.members.remove(worker)
        return self.start()

    def drain(self) -> None:
        """Drain all workers; each must exit with code 0."""
        for worker in self.members:
            worker.terminate()
        for worker in self.members:
            code = worker.wait()
            assert code == 0, worker.log_tail()

    def check_alive(self) -> None:
        for worker in self.members:
            assert worker.is_alive, worker.log_tail()

    def logged(self, text: str) -> int:
        """Return how often the text occurs in the logs of all workers, including ended ones."""
        logs = self.folder.glob(f"{self.name}-*.log")
        return sum(log.read_text(errors="replace").count(text) for log in logs)

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ
        }
        return {
            **inherited,
            "JOBFORGE_DATABASE_URL": self.url,
            "JOBFORGE_LEASE_S": str(self.lease_s),
            "JOBFORGE_HEARTBEAT_S": str(self.heartbeat_s),
            "JOBFORGE_DRAIN_S": str(self.drain_s),
            "JOBFORGE_LOG_FORMAT": "json",
            # Workers of Node compile once what hundreds of processes import.
            "NODE_COMPILE_CACHE": str(Path(__file__).parents[2] / ".cache" / "node"),
        }


def wait_for_end_of(pids: list[int], since: float) -> None:
    wait_until(lambda: not any(is_process_of(pid, since) for pid in pids))


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(folder.name))
    found = [pid]
    for known in found:
        found += parents.get(known, [])
    return found[1:]


def _kill_descendant(pid: int, worker: Worker) -> None:
    # Only processes that are younger than the worker: an older one has reused the PID.
    if is_process_of(pid, now()) and not is_process_of(pid, worker.started):
        _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
