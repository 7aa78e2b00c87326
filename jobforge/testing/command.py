"""Run a command's program in a test and return the verdict."""

import shutil
import subprocess
import tempfile

from jobforge.sdk.command import Command
from jobforge.sdk.context import Context
from jobforge.sdk.verdict import (
    ProcessExit,
    StopReason,
    Verdict,
    verdict_from_error,
    verdict_from_exit,
)
from jobforge.worker.isolation.output_tail import OutputTail


def run_program(command: Command, ctx: Context) -> Verdict:
    """Run the program in a temporary folder without input.

    It inherits the test's output, except for a stdout that becomes part of the result.
    """
    argv = command.render(command.parse_arguments_json(ctx.version, ctx.payload_json))
    program = shutil.which(argv[0])
    if program is None:
        return command.verdict_from_start_error(FileNotFoundError(f"Program '{argv[0]}' not found"))
    with tempfile.TemporaryDirectory(prefix="jobforge-") as folder:
        try:
            completed = subprocess.run(
                argv,
                executable=program,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if command.returns_stdout else None,
                timeout=command.settings.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return verdict_from_error(error, command.settings, StopReason.TIMEOUT)
        except OSError as error:
            return command.verdict_from_start_error(error)
    exit_ = (
        ProcessExit(completed.returncode)
        if completed.returncode >= 0
        else ProcessExit(signal=-completed.returncode)
    )
    verdict = verdict_from_exit(exit_, None, command.verdict_from_exit(exit_))
    assert verdict is not None  # noqa: S101 - None is only for a lost lease
    return command.add_stdout(verdict, _read_tail(completed.stdout))


def _read_tail(stdout: bytes | None) -> str | None:
    tail = OutputTail()
    tail.feed(stdout or b"")
    return tail.text()
