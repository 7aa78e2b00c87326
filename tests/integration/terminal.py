"""What a user's shell does: runs `jobforge` as a program and reads what it says."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, Any

import pytest
from cluster import BINARIES, wait_until
from typer.main import get_command

import jobforge.cli
from jobforge.observability import logs

# Typer makes all commands anew whenever it is called, which takes longer than most of them.
COMMANDS = get_command(jobforge.cli.app)


def environment(**variables: str) -> dict[str, str]:
    """Ours, without the settings of whoever runs the tests."""
    inherited = {name: value for name, value in os.environ.items() if "JOBFORGE" not in name}
    if BINARIES:
        variables["JOBFORGE_PG_BIN"] = str(BINARIES)
    return {**inherited, **variables, "PYTHONPATH": os.pathsep.join(sys.path)}


class Terminal:
    """A shell in a folder, with JOBFORGE_* variables set."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.prefix: list[str] = []  # a program that runs the commands, such as setpriv
        self._environment = environment(**variables)

    def run(self, *arguments: str | bytes) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.prefix, sys.executable, "-m", "jobforge", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=self._environment,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def popen(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "jobforge", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self._environment,
        )

    def read(self, *arguments: str) -> str:
        """What a command that must succeed prints."""
        result = self.run(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def read_json(self, *arguments: str) -> Any:
        return json.loads(self.read(*arguments, "--json"))

    @contextmanager
    def started(self, *arguments: str) -> Iterator["Program"]:
        """A command that goes on until it is told to stop; killed at the end if it has not."""
        with self.started_program(sys.executable, "-u", "-m", "jobforge", *arguments) as program:
            yield program

    @contextmanager
    def started_program(self, *command: str) -> Iterator["Program"]:
        """Another program, in the same way."""
        process = subprocess.Popen(
            [*self.prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self._environment,
        )
        program = Program(process)
        try:
            yield program
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.wait()
            program.close()


class QuickTerminal(Terminal):
    """Runs a command within this process: starting one takes ten times as long as most commands.

    For commands that come to an end, where the process itself is not what is tested.
    """

    def run(self, *arguments: str | bytes) -> "subprocess.CompletedProcess[str]":
        words = ["jobforge", *map(os.fsdecode, arguments)]
        with (
            pytest.MonkeyPatch.context() as patch,
            Path(os.devnull).open(encoding="utf-8") as nothing,
            redirect_stdout(_pipe()) as out,
            redirect_stderr(_pipe()) as err,
        ):
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", words)
            patch.setattr(sys, "path", list(sys.path))
            patch.setattr(sys, "stdin", nothing)
            patch.setattr(jobforge.cli, "app", COMMANDS)
            patch.setenv("COLUMNS", "80")  # however wide the terminal of whoever runs the tests
            for name in {*os.environ, *self._environment}:
                if "JOBFORGE" in name:
                    patch.delenv(name, raising=False)
                    if name in self._environment:
                        patch.setenv(name, self._environment[name])
            code = _exit_code_of_main()
        logs.unconfigure()  # `worker` configures them; caplog would miss the lines of later tests
        _forget_modules(self.folder)
        return subprocess.CompletedProcess(words, code, _read(out), _read(err))


def _forget_modules(folder: Path) -> None:
    """Those of an app that a command has loaded: others have one of the same name."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(folder):
            del sys.modules[name]


def _exit_code_of_main() -> int:
    with pytest.raises(SystemExit) as ended:
        jobforge.cli.main()
    code = ended.value.code
    assert isinstance(code, int | None)
    return code or 0


def _pipe() -> "io.TextIOWrapper[io.BytesIO]":
    return io.TextIOWrapper(
        io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True
    )


def _read(pipe: "io.TextIOWrapper[io.BytesIO]") -> str:
    return pipe.buffer.getvalue().decode()


class Program:
    """A program that runs; what it says is read all the time, so that it never waits for us."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self.process = process
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    @property
    def said(self) -> str:
        return "".join(self._lines)

    def wait_for(self, words: str, *, times: int = 1) -> None:
        _or_show(self, lambda: self.said.count(words) >= times or self._has_ended())
        assert self.said.count(words) >= times, self.said

    def wait_for_dev(self) -> None:
        """Wait until the worker of `jobforge dev` has started.

        Each part of the start has its own time limit: on a busy machine the database, its
        migrations and the server together take longer than one.
        """
        for words in ("Schema ", "Press Ctrl-C to stop.", '"worker.started"'):
            self.wait_for(words)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """The exit code, once it has ended by itself."""
        code = self.process.wait(timeout=60)
        self._reader.join()
        return code

    def close(self) -> None:
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _has_ended(self) -> bool:
        return not self._reader.is_alive()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.append(line)


def _or_show(program: Program, condition: Callable[[], bool]) -> None:
    try:
        wait_until(condition)
    except AssertionError as error:
        raise AssertionError(f"it has not said so, but:\n{program.said}") from error
