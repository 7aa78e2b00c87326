"""Isolation levels: what each prevents, which one is chosen, and what it needs."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from attacks import Attempts
from integration import attack_table
from integration.isolation_rig import RecordingHost

from jobforge.config import load
from jobforge.errors import ConfigError
from jobforge.worker.isolation import landlock
from jobforge.worker.isolation.cgroups import Cgroup, Cgroups, find_cgroups
from jobforge.worker.isolation.job_users import UserPool
from jobforge.worker.isolation.levels import IsolationLevel, choose_level
from jobforge.worker.isolation.runner import ProcessRunner

NOBODY = 65534
IS_ROOT = os.geteuid() == 0
CASES = [
    *(("process", None), ("user", None), ("namespace", None), ("strict", None)),
    *([("process", NOBODY), ("namespace", NOBODY)] if IS_ROOT else []),
]
# Levels that must not be skipped, or a host without any level would pass. `process` needs nothing,
# and root can use `user`. On a host with all levels, JOBFORGE_REQUIRE_ISOLATION=1 requires them
# all.
REQUIRED = {"process", "user"} if IS_ROOT else {"process"}
IS_ALL_REQUIRED = os.environ.get("JOBFORGE_REQUIRE_ISOLATION") == "1"
# Only a Landlock domain prevents these at the level `process`.
BY_LANDLOCK = {
    "can_read_the_memory_of_a_sibling",
    "can_take_the_socket_of_a_sibling",
    "can_signal_a_sibling_or_the_worker",
}


@pytest.mark.attack("isolation")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("level", "user"), CASES)
def test_a_level_prevents_the_attacks_that_the_page_lists(
    level: str, user: int | None, attempts: Attempts
) -> None:
    found = attack_table.attack(level, user)
    if isinstance(found, str):
        assert not IS_ALL_REQUIRED, found
        assert level not in REQUIRED, found
        pytest.skip(found)
    output = attack_table.read()[level]
    # An attack that the level does not prevent can still fail by chance, so it may be repeated. An
    # attack that the level prevents must fail in every run.
    for _ in range(2):
        if all(found[name] for name, can in output.items() if can):
            break
        repeated = attack_table.attack(level, user)
        assert not isinstance(repeated, str), repeated
        found = {name: can or repeated[name] for name, can in found.items()}
    if level == "process" and not landlock.confines_signals():
        found = {name: can for name, can in found.items() if name not in BY_LANDLOCK}
        output = {name: can for name, can in output.items() if name not in BY_LANDLOCK}
    assert found == output
    attempts(sum(not can for can in found.values()))


@pytest.mark.parametrize("way", ["fork", "thread"])
def test_a_process_that_exits_during_the_search_hides_no_other(way: str) -> None:
    program = [sys.executable, "-m", "integration.left_processes", way]
    done = subprocess.run(
        program, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "True\n"


def test_the_page_lists_every_attack() -> None:
    assert all(found.keys() == attack_table.LABELS.keys() for found in attack_table.read().values())


def test_a_level_that_the_host_lacks_is_refused_with_the_reason() -> None:
    with pytest.raises(
        ConfigError, match="strict is not available on this host: no cgroup"
    ) as raised:
        choose_level("strict", lambda _: "no cgroup")
    assert raised.value.field == "isolation_level"


def test_auto_takes_the_level_user_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert choose_level("auto", lambda _: None) == (IsolationLevel.USER, None)
    assert choose_level("auto", lambda _: "no users") == (IsolationLevel.PROCESS, "no users")


def test_auto_takes_the_level_process_without_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert choose_level("auto", lambda _: None).level is IsolationLevel.PROCESS


def test_a_worker_does_not_start_at_an_impossible_level(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text("from jobforge import JobForge\njf = JobForge()\n", encoding="utf-8")
    app.chmod(0o600)  # the jobs' users could not read the folder

    async def start() -> None:
        environment = os.environ
        await ProcessRunner(
            str(app), RecordingHost(), environment=environment, isolation_level="user"
        ).open()

    with pytest.raises(ConfigError, match="isolation_level user is not available on this host"):
        asyncio.run(start())


def test_the_user_id_that_means_no_change_is_refused() -> None:
    with pytest.raises(ValueError, match="not a valid range of user IDs"):
        UserPool(2**32 - 2, 2**32 - 1)


@pytest.mark.skipif(not IS_ROOT, reason="locks are the worker's own")
def test_two_workers_never_share_a_user_id() -> None:
    """The second worker is another process, because the lock is between processes."""
    first, second = 300_000, 300_511
    here = UserPool(first, second)
    taken = {here.acquire().uid for _ in range(100)}
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        there = UserPool(first, second)
        os.write(writer, ",".join(str(there.acquire().uid) for _ in range(100)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        others = {int(word) for word in answer.read().split(",")}
    os.waitpid(pid, 0)
    os.close(here.lock_fd)
    assert len(taken) == len(others) == 100
    assert not taken & others


@pytest.mark.skipif(not IS_ROOT, reason="locks are the worker's own")
def test_more_jobs_than_user_ids_are_refused() -> None:
    users = UserPool(301_000, 301_001)
    users.acquire()
    with pytest.raises(OSError, match="All user IDs of job_user_range are in use"):
        users.acquire()
    os.close(users.lock_fd)


def test_cgroups_of_version_2_are_found_next_to_the_workers_own(tmp_path: Path) -> None:
    worker = tmp_path / "service" / "worker"
    worker.mkdir(parents=True)
    (worker.parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    own = "0::/system.slice/service/worker\n"
    mounts = f"30 20 0:26 /system.slice {tmp_path} rw - cgroup2 cgroup2 rw\n"
    found = find_cgroups(own, mounts)
    assert found.parents == {"memory": str(worker.parent), "pids": str(worker.parent)}


def test_cgroups_need_controllers_that_are_delegated(tmp_path: Path) -> None:
    mounts = f"30 20 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    with pytest.raises(OSError, match="no writable cgroup has the controller memory"):
        find_cgroups("0::/\n", mounts)


def test_a_cgroup_of_version_2_has_limits_and_reports_its_kills(tmp_path: Path) -> None:
    for name in ("memory.max", "memory.oom.group", "pids.max"):
        (tmp_path / name).touch()
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom_kill 0\n")
    cgroup = Cgroup({"memory": str(tmp_path), "pids": str(tmp_path)}, is_v2=True)
    cgroup.limit_memory(4096)
    cgroup.limit_processes(7)
    assert (tmp_path / "memory.max").read_text() == "4096"
    assert (tmp_path / "pids.max").read_text() == "7"
    assert not cgroup.ran_out_of_memory()
    events.write_text("low 0\noom_kill 1\n")
    assert cgroup.ran_out_of_memory()
    assert not cgroup.ran_out_of_memory(), "each kill counts once"


def test_cgroups_of_a_killed_zygote_are_removed_and_those_of_a_running_one_are_kept(
    tmp_path: Path,
) -> None:
    ended = os.fork()
    if ended == 0:
        os._exit(0)
    os.waitpid(ended, 0)
    stale = tmp_path / f"jobforge-{ended}-0123abcd-1"
    stale.mkdir()
    running = tmp_path / f"jobforge-{os.getppid()}-0123abcd-1"
    running.mkdir()
    Cgroups({"memory": str(tmp_path), "pids": str(tmp_path)}, is_v2=True).remove_stale()
    assert not stale.exists()
    assert running.exists()


def test_the_range_of_user_ids_is_parsed(tmp_path: Path) -> None:
    assert load(
        environ={"JOBFORGE_JOB_USER_RANGE": "5000-5999"}, folder=tmp_path
    ).job_user_range == (
        5000,
        5999,
    )
    for wrong in ("0-10", "10-5", "x", "1-4294967295"):
        with pytest.raises(ConfigError, match="job_user_range must be a range of user IDs"):
            load(environ={"JOBFORGE_JOB_USER_RANGE": wrong}, folder=tmp_path)
