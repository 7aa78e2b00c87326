"""One run of a command's program in a test: its argument list, and what its exit says."""

import shutil
import subprocess
import tempfile

from jobforge.sdk.command import Command
from jobforge.sdk.context import Context
from jobforge.sdk.verdict import Exit, Stop, Verdict, exited, raised


def run_program(command: Command, ctx: Context) -> Verdict:
    """In a folder of its own, without input; what it prints goes where the test's output goes."""
    argv = command.render(command.arguments_of(ctx.version, ctx.payload_json))
    program = shutil.which(argv[0])
    if program is None:
        return command.not_started(FileNotFoundError(f"there is no program {argv[0]}"))
    with tempfile.TemporaryDirectory(prefix="jobforge-") as folder:
        try:
            ended = subprocess.run(
                argv,
                executable=program,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                timeout=command.settings.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return raised(error, command.settings, Stop.TIMEOUT)
        except OSError as error:
            return command.not_started(error)
    how = Exit(ended.returncode) if ended.returncode >= 0 else Exit(signal=-ended.returncode)
    verdict = exited(how, None, command.ended(how))
    assert verdict is not None  # noqa: S101 - only a lost lease leaves nothing to say
    return verdict
