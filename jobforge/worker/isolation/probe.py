"""Probe whether this host permits an isolation level, by running an empty job at the level.

`python -m jobforge.worker.isolation.probe` probes every level and prints the results as JSON.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from jobforge.sdk.definition_settings import MIB, ProcessLimits
from jobforge.worker.isolation import landlock, limits
from jobforge.worker.isolation.cgroups import find_cgroups
from jobforge.worker.isolation.job_users import UserPool
from jobforge.worker.isolation.levels import IsolationLevel
from jobforge.worker.isolation.namespaces import enter_user_namespace
from jobforge.worker.isolation.sandbox import Sandboxes

UserRange = tuple[int, int]

_SMALL = ProcessLimits(memory_bytes=64 * MIB)
_SUCCESS = "ok"


def open_sandboxes(  # noqa: PLR0913 - one parameter for each part of a sandbox
    level: IsolationLevel,
    *,
    user_range: UserRange,
    processes: int,
    folder: str,
    fork: Callable[[], int] = os.fork,
    paths: Sequence[str] = (),
) -> Sandboxes | None:
    """Return the sandboxes for the level, tested with an empty job; None for the level process.

    Raises OSError with what the host lacks. `folder` is the parent of the jobs' folders; jobs must
    be able to read `paths`. Without root, this process continues in a fork: see
    `enter_user_namespace`.
    """
    if level is IsolationLevel.PROCESS:
        return None
    if sys.platform != "linux":
        raise OSError(f"it requires Linux, and this is {sys.platform}")
    is_root = os.geteuid() == 0
    if not is_root:
        if level is IsolationLevel.USER:
            raise OSError("the worker does not run as root")
        try:
            enter_user_namespace()
        except OSError as error:
            raise OSError(
                f"the worker does not run as root, and user namespaces are not allowed ({error})"
            ) from error
    cgroups = find_cgroups() if level >= IsolationLevel.STRICT else None
    if cgroups is not None:
        cgroups.remove_stale()
    users = UserPool(*user_range) if is_root else None
    sandboxes = Sandboxes(level, fork, users=users, processes=processes, cgroups=cgroups)
    if is_root:
        os.chmod(folder, 0o711)  # noqa: PTH101, S103 - jobs' users must be able to traverse it
    _run_empty_job(sandboxes, folder, [*_code_paths(), *paths])
    return sandboxes


def probe_level(level: IsolationLevel, *, user_range: UserRange, processes: int) -> str | None:
    """Return what the host lacks for the level, or None.

    The probe runs in a fork, so that it does not change this process.
    """
    import tempfile  # noqa: PLC0415 - kept out of zygotes (docs/decisions/0020)

    reader, writer = os.pipe()
    folder = tempfile.mkdtemp(prefix="jobforge-")
    pid = os.fork()
    if pid == 0:
        outcome = _SUCCESS
        try:
            limits.become_subreaper()
            sandboxes = open_sandboxes(
                level, user_range=user_range, processes=processes, folder=folder
            )
            if sandboxes is not None:
                _kill_and_close(sandboxes)
        except Exception as error:  # noqa: BLE001 - any error is the result of the probe
            outcome = str(error)
        finally:
            os.write(writer, outcome.encode())
            os._exit(0)
    os.close(writer)
    outcome = _read(reader)
    os.waitpid(pid, 0)
    os.rmdir(folder)  # noqa: PTH106 - paths are strings here
    return None if outcome == _SUCCESS else outcome or "the attempt exited without a response"


def _run_empty_job(sandboxes: Sandboxes, folder: str, paths: Sequence[str]) -> None:
    own = f"{folder}/probe"
    os.mkdir(own, 0o700)  # noqa: PTH102 - paths are strings here
    reader, writer = os.pipe()
    try:
        sandbox = sandboxes.acquire(_SMALL)
        pid = sandboxes.fork(sandbox)
    except OSError:
        os.rmdir(own)  # noqa: PTH106 - paths are strings here
        _kill_and_close(sandboxes)
        raise
    if pid == 0:
        outcome = _SUCCESS
        try:
            sandbox.enter(own)
            missing = next((path for path in paths if not os.access(path, os.R_OK)), None)
            if missing is not None:
                outcome = f"jobs could not read {missing}"
        except OSError as error:
            outcome = str(error)
        finally:
            os.write(writer, outcome.encode())
            os._exit(0)
    os.close(writer)
    outcome = _read(reader)
    os.waitpid(pid, 0)
    sandboxes.release(sandbox, sandboxes.keepers)
    os.rmdir(own)  # noqa: PTH106 - paths are strings here
    if outcome != _SUCCESS:
        _kill_and_close(sandboxes)
        raise OSError(outcome or "an empty job exited immediately")


def _kill_and_close(sandboxes: Sandboxes) -> None:
    sandboxes.kill_all()
    for keeper in sandboxes.keepers:
        os.waitpid(keeper, 0)
    sandboxes.close()


def _code_paths() -> list[str]:
    """Return the files and folders that a job needs to import modules."""
    found = [sys.executable, *sys.path, str(Path.cwd())]
    return [path for path in found if path and Path(path).exists()]


def _read(fd: int) -> str:
    with open(fd, encoding="utf-8") as file:
        return file.read()


def main() -> None:
    import json  # noqa: PLC0415 - kept out of zygotes, and so is the configuration

    from jobforge.config import load as load_config  # noqa: PLC0415

    config = load_config()
    found = {
        level.label: probe_level(
            level, user_range=config.job_user_range, processes=config.job_processes
        )
        for level in IsolationLevel
    }
    with contextlib.suppress(OSError):
        yama = Path("/proc/sys/kernel/yama/ptrace_scope").read_text(encoding="ascii").strip()
        found["yama"] = yama
    found["landlock"] = "yes" if landlock.is_available() else None
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
