"""Run every attack of attack_app.py at one level, and print which of them succeeded.

    python -m integration.attack_runner LEVEL [USER_ID]

This is a separate program because it changes its user and its mounts, so that jobs of other users
can read this Python.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from integration import attack_app
from integration.isolation_rig import IsolationRig

from jobforge.errors import ConfigError
from jobforge.types.jobs import Outcome
from jobforge.worker.isolation import namespaces, proc
from jobforge.worker.runner_protocol import Report

APP = str(Path(__file__).with_name("attack_app.py"))
# Long enough for a slow machine; killed processes usually disappear at once.
_KILLED_WITHIN_S = 30
# Within this time the zygote looks several times for processes that finished jobs have left.
_SWEPT_AFTER_S = 1


class AttackListener:
    """A socket that shows when all processes with its other end are gone."""

    def __init__(self) -> None:
        self.name = f"jobforge-{uuid4().hex}"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"\0{self.name}")
        self._socket.listen()
        self._connection: socket.socket | None = None

    def accept(self) -> None:
        self._connection, _ = self._socket.accept()

    def accepts_connection(self) -> None:
        assert self._connection is not None
        assert self._connection.recv(1) == b"."

    def release(self) -> None:
        assert self._connection is not None
        with contextlib.suppress(BrokenPipeError):
            self._connection.send(b"?")

    def has_live_process(self) -> bool:
        """Return whether a process still exists after the last of them should have exited."""
        assert self._connection is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            while selector.select(_KILLED_WITHIN_S):
                received = self._connection.recv(4096)
                if not received:
                    return False
                if b"!" in received:
                    return True
        return True


class Attacks:
    def __init__(self, level: str) -> None:
        self.rig = IsolationRig(
            target=APP, isolation_level=level, job_processes=attack_app.MOST_PROCESSES
        )

    def names(self) -> list[str]:
        return [name for name in vars(type(self)) if name.startswith("can_")]

    def run(self, name: str) -> bool:
        attack: Callable[[], bool] = getattr(self, name)
        return attack()

    def can_read_the_memory_of_a_sibling(self) -> bool:
        return bool(self._beside_a_victim("read_memory", with_token=True))

    def can_take_the_socket_of_a_sibling(self) -> bool:
        return bool(self._beside_a_victim("take_sockets"))

    def can_read_the_files_of_a_sibling(self) -> bool:
        return bool(self._beside_a_victim("read_files", with_token=True))

    def can_signal_a_sibling_or_the_worker(self) -> bool:
        return bool(self._beside_a_victim("signal_others", with_pids=True))

    def can_list_the_processes_of_others(self) -> bool:
        return bool(self._beside_a_victim("see_others", with_pids=True))

    def can_leave_a_chain_of_forks(self) -> bool:
        return self._leaves("leave_chain")

    def can_leave_a_chain_of_forks_beside_another_job(self) -> bool:
        token, victims, listener = uuid4().hex, AttackListener(), AttackListener()

        async def left() -> bool:
            victim = await self.rig.start(
                "hold", token=token, listener=victims.name
            ).wait_for_note()
            await asyncio.to_thread(victims.accept)
            started = self.rig.start("leave_chain", listener=listener.name)
            await asyncio.to_thread(listener.accept)
            await asyncio.to_thread(listener.accepts_connection)
            await started.report()
            await asyncio.sleep(_SWEPT_AFTER_S)
            listener.release()
            is_answered = await asyncio.to_thread(listener.has_live_process)
            victims.release()
            await victim.report()
            return is_answered

        return self.rig.run_in_loop(left())

    def can_leave_a_hidden_daemon(self) -> bool:
        return self._leaves("leave_daemon")

    def can_survive_the_death_of_the_zygote(self) -> bool:
        listener = AttackListener()

        async def killed() -> Report:
            started = self.rig.start("leave_daemon_and_wait", listener=listener.name)
            await asyncio.to_thread(listener.accept)
            await asyncio.to_thread(listener.accepts_connection)
            zygote = self.rig.runner.zygote_pid
            assert zygote is not None
            os.kill(zygote, signal.SIGKILL)
            report = await started.report()
            # The next zygote has started its first job.
            await self.rig.start("see_others", pids=[]).report()
            return report

        self.rig.run_in_loop(killed())
        listener.release()
        return listener.has_live_process()

    def can_exceed_its_memory_by_a_memfd(self) -> bool:
        return _is_done(self.rig.run("fill_memfd"))

    def can_exceed_its_memory_by_dev_shm(self) -> bool:
        name = uuid4().hex
        report = self.rig.run("fill_shared_memory", name=name)
        for left in Path("/dev/shm").glob(f"{name}.*"):
            left.unlink()
        return _is_done(report)

    def can_exceed_its_memory_by_forks(self) -> bool:
        return _is_done(self.rig.run("fill_forks"))

    def can_fork_without_limit(self) -> bool:
        return _is_done(self.rig.run("fork_often"))

    def can_leave_files_in_dev_shm(self) -> bool:
        left = Path(f"/dev/shm/{uuid4().hex}")
        assert self.rig.run("leave_file", name=left.name).exit_code == 0
        is_left = left.exists()
        left.unlink(missing_ok=True)
        return is_left

    def can_leave_system_v_memory(self) -> bool:
        libc = ctypes.CDLL(None)
        key = uuid4().int & 0x7FFF_FFFF
        assert self.rig.run("leave_segment", key=key).exit_code == 0
        segment = libc.shmget(key, 0, 0)
        if segment < 0:
            # The segment of another user exists but must not be opened.
            return f" {key} " in Path("/proc/sysvipc/shm").read_text(encoding="ascii")
        libc.shmctl(segment, 0, None)
        return True

    def _beside_a_victim(
        self, attack: str, *, with_token: bool = False, with_pids: bool = False
    ) -> object:
        """Return the result of the attack while a victim runs, whose result must be unchanged."""
        token, listener = uuid4().hex, AttackListener()

        async def attacked() -> tuple[Report, Report]:
            victim = await self.rig.start(
                "hold", token=token, listener=listener.name
            ).wait_for_note()
            await asyncio.to_thread(listener.accept)
            payload: dict[str, object] = {"token": token[::-1]} if with_token else {}
            if with_pids:
                payload["pids"] = self._pids()
            attacker = await self.rig.start(attack, **payload).report()
            listener.release()
            return attacker, await victim.report()

        attacker, victim = self.rig.run_in_loop(attacked())
        assert victim.verdict is not None
        assert victim.verdict.result == token[::-1], victim
        assert attacker.verdict is not None
        assert attacker.verdict.outcome is Outcome.SUCCEEDED, attacker
        return attacker.verdict.result

    def _pids(self) -> list[int]:
        """Return the zygote, its jobs and the worker, as seen from outside."""
        zygote = self.rig.runner.zygote_pid
        assert zygote is not None
        below = proc.find_descendants([zygote], proc.read_table())
        return [*below, os.getpid()]

    def _leaves(self, attack: str) -> bool:
        listener = AttackListener()

        async def left() -> Report:
            started = self.rig.start(attack, listener=listener.name)
            await asyncio.to_thread(listener.accept)
            await asyncio.to_thread(listener.accepts_connection)
            return await started.report()

        self.rig.run_in_loop(left())
        return listener.has_live_process()


def _is_done(report: Report) -> bool:
    return report.verdict is not None and report.verdict.result == "done"


def show_code() -> None:
    """Let every user read this Python and this checkout, in mounts of this process."""
    is_unshared = False
    while hidden := _find_hidden_code():
        if not is_unshared:
            namespaces.unshare(namespaces.NEWNS)
            namespaces.mount("none", "/", flags=16384 | 1 << 18)
            is_unshared = True
        for folder, names in hidden.items():
            kept = {name: os.open(folder / name, os.O_PATH) for name in names}
            namespaces.mount("tmpfs", str(folder), "tmpfs", options="mode=755")
            for name, fd in kept.items():
                (folder / name).mkdir()
                namespaces.mount(f"/proc/self/fd/{fd}", str(folder / name), flags=4096)
                os.close(fd)


def _find_hidden_code() -> dict[Path, set[str]]:
    """Return outermost folders that not every user may enter, with the names needed in them."""
    found: dict[Path, set[str]] = {}
    for path in (Path(sys.executable).resolve(), Path(__file__).resolve()):
        for folder in reversed(path.parents):
            if not folder.stat().st_mode & 1:
                found.setdefault(folder, set()).add(path.relative_to(folder).parts[0])
                break
    return found


def main() -> None:
    level, *users = sys.argv[1:]
    if os.geteuid() == 0:
        show_code()
    for user in map(int, users):
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    try:
        attacks = Attacks(level)
    except ConfigError as error:
        print(json.dumps({"lack": error.message}))  # noqa: T201 - output for the test
        return
    found = {name: attacks.run(name) for name in attacks.names()}
    attacks.rig.close()
    print(json.dumps(found))  # noqa: T201 - output for the test


if __name__ == "__main__":
    main()
