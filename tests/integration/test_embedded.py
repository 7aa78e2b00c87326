"""The embedded server, with real folders and processes."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from jobforge import embedded
from jobforge.embedded import Embedded, binaries
from jobforge.embedded.binaries import find_binaries
from jobforge.errors import EmbeddedError
from jobforge.testing.cluster import SETTINGS

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to run it as another user")

JOIN = """
import sys, pathlib
from jobforge.embedded import Embedded
server = Embedded(pathlib.Path(sys.argv[1]), settings={"fsync": "off"})
server.start()
print(server.started_here)
"""


def _create_embedded(folder: Path, **settings: str) -> Embedded:
    return Embedded(folder / "pg", settings={**SETTINGS, **settings})


def _value(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as conn:
        *_, last = conn.execute(query.encode()).results()
        row = last.fetchone()
        return row[0] if row else None


def test_a_running_server_is_joined_and_not_started_again(folder: Path) -> None:
    first, second = _create_embedded(folder), _create_embedded(folder)
    url = first.start()
    assert second.start() == url
    assert (first.started_here, second.started_here) == (True, False)


def test_of_two_concurrent_processes_one_starts_and_the_other_joins(folder: Path) -> None:
    command = [sys.executable, "-c", JOIN, str(folder / "pg")]
    processes = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": ":".join(sys.path)}
        )
        for _ in range(2)
    ]
    answers = sorted(process.communicate(timeout=60)[0].strip() for process in processes)
    assert answers == ["False", "True"]


def test_stop_ends_the_server_and_is_harmless_without_one(folder: Path) -> None:
    server = _create_embedded(folder)
    server.stop()
    server.start()
    server.stop()
    assert server.running() is None
    server.stop()


def test_data_survives_a_restart(folder: Path) -> None:
    server = _create_embedded(folder)
    _value(server.start(), "create table kept (n) as values (1); select 1")
    server.stop()
    assert _value(server.start(), "select count(*) from kept") == 1


def test_a_killed_server_is_started_again(folder: Path) -> None:
    server = _create_embedded(folder, fsync="on", synchronous_commit="on")
    with psycopg.connect(server.start(), autocommit=True) as conn:
        conn.execute("create table kept as select 1")
        running = server.running()
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        # This connection's orphaned backend still exists, so the start has to wait for it.
        assert _value(server.start(), "select count(*) from kept") == 1


def test_the_lock_file_of_a_zombie_does_not_stop_a_start(folder: Path) -> None:
    server = _create_embedded(folder)
    server.start()
    lock_file = folder / "pg" / "postmaster.pid"
    text = lock_file.read_text()
    server.stop()
    owner = lock_file.parent.stat()
    # The process has the owner's user, because the server ignores a process that it may not signal.
    user = owner.st_uid if os.geteuid() == 0 else None
    with subprocess.Popen(["/bin/sh", "-c", ":"], user=user) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        lock_file.write_text(text.replace(text.split("\n")[0], str(zombie.pid), 1))
        os.chown(lock_file, owner.st_uid, owner.st_gid)
        server.start()
    assert server.started_here


def test_a_long_or_unusual_path_gets_a_reachable_socket(folder: Path) -> None:
    for name in ("long" * 30, "it's, odd 100%"):
        server = _create_embedded(folder / name)
        url = server.start()
        assert _value(url, "select 1") == 1
        running = server.running()
        assert running is not None
        server.stop()
        assert running.socket_dir == folder / name / "pg" or not running.socket_dir.exists()


def test_a_path_with_shell_characters_is_refused(folder: Path) -> None:
    with pytest.raises(EmbeddedError, match="must not contain"):
        _create_embedded(folder / "$(touch here)").start()


def test_only_the_owner_can_enter_the_folder_with_the_socket(folder: Path) -> None:
    server = _create_embedded(folder)
    server.start()
    running = server.running()
    assert running is not None
    assert stat.S_IMODE(running.socket_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "pg.password").stat().st_mode) == 0o600


def test_tcp_requires_the_password(folder: Path) -> None:
    server = Embedded(folder / "pg", settings=SETTINGS, tcp=True)
    server.start()
    url = server.tcp_url()
    assert _value(url, "select 1") == 1
    password = (folder / "pg.password").read_text().strip()
    with pytest.raises(psycopg.OperationalError):
        _value(url.replace(password, "wrong"), "select 1")


def test_without_tcp_there_is_no_port_to_connect_to(folder: Path) -> None:
    server = _create_embedded(folder)
    url = server.start()
    assert _value(url, "show listen_addresses") == ""
    with pytest.raises(EmbeddedError, match="does not listen on TCP"):
        server.tcp_url()


def test_settings_are_applied_to_the_server(folder: Path) -> None:
    assert _value(_create_embedded(folder, work_mem="7MB").start(), "show work_mem") == "7MB"


def test_a_server_that_cannot_start_reports_the_reason(folder: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"FATAL.*no_such_setting"):
        _create_embedded(folder, no_such_setting="1").start()


def test_a_folder_with_other_files_is_left_unchanged(folder: Path) -> None:
    (folder / "pg").mkdir()
    (folder / "pg" / "thesis.txt").write_text("years of work")
    with pytest.raises(EmbeddedError, match="contains no Postgres data"):
        _create_embedded(folder).start()
    assert (folder / "pg" / "thesis.txt").read_text() == "years of work"


def test_data_of_another_major_version_is_refused_with_the_version(folder: Path) -> None:
    server = _create_embedded(folder)
    server.start()
    server.stop()
    (folder / "pg" / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedError, match="created by Postgres 14"):
        server.start()
    shutil.rmtree(folder / "pg")


def test_a_folder_without_postgres_is_refused(folder: Path) -> None:
    with pytest.raises(EmbeddedError, match="Postgres not found in"):
        Embedded(folder / "pg", bin_dir=folder).start()


def test_the_version_is_read_after_a_warning_with_numbers(folder: Path) -> None:
    program = folder / "postgres"
    program.write_text(
        '#!/bin/sh\necho "LOG:  invalid binary /python3.11/postgres" >&2\n'
        'echo "postgres (PostgreSQL) 18.4"\n'
    )
    program.chmod(0o755)
    assert binaries.Binaries(folder).major() == 18


def test_without_the_wheel_programs_on_the_path_are_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = find_binaries().folder
    monkeypatch.setattr(binaries, "_wheel_folder", lambda: None)
    (folder / "pg_ctl").symlink_to(there / "pg_ctl")
    monkeypatch.setenv("PATH", str(folder))
    assert find_binaries().folder == there


def test_without_programs_the_error_says_how_to_install_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "_wheel_folder", lambda: None)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(EmbeddedError) as caught:
        find_binaries()
    assert "pip install" in str(caught.value.hint)


@needs_root
def test_root_runs_the_server_as_another_user(folder: Path) -> None:
    server = _create_embedded(folder)
    server.start()
    running = server.running()
    assert running is not None
    assert Path(f"/proc/{running.pid}").stat().st_uid != 0


@needs_root
def test_below_a_private_folder_of_root_data_and_programs_move_to_reachable_folders(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder / "home"
    home.mkdir(mode=0o700)
    there = find_binaries().folder
    install, package = there.parent, there.parent.parent
    for part in (Path(package.name, install.name), Path(package.name + ".libs")):
        if (package.parent / part).exists():
            shutil.copytree(package.parent / part, home / part, symlinks=True)
    monkeypatch.setattr(embedded, "FALLBACK_DIR", folder / "data")
    monkeypatch.setattr(binaries, "COPIES", folder / "programs")
    own = home / package.name / install.name / there.name
    server = Embedded(home / "project" / "pg", bin_dir=own, settings=SETTINGS)
    assert _value(server.start(), "select 1") == 1
    server.stop()
    assert (home / "project" / "pg").resolve().is_relative_to(folder / "data")
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert _value(server.start(), "select 1") == 1
