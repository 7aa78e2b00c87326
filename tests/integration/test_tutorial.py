"""The files and commands of docs/tutorial.md, run in order, have the described results."""

import io
import re
import runpy
import shlex
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest
from cluster import Connection, Database, wait_until
from integration.call_setup import TENANT_A
from integration.terminal import InProcessTerminal, RunningProgram, Terminal, environment

from jobforge.security.vault import make_secret_key

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
PORT = "8900"


_PREPARATIONS = ("mkdir", "pip", "export", "jobforge dev")


class Reader:
    """A reader in a folder with the page's files, who types what follows a `$`."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = folder
        self._settings = settings
        self._shell = InProcessTerminal(folder, **settings)

    def types(self, line: str) -> str:
        for inner in re.findall(r"\$\((.*?)\)", line):
            line = line.replace(f"$({inner})", self.types(inner), 1)
        program, *words = shlex.split(line)
        if program == "jobforge":
            return self._shell.read(*words)
        return self._runs(words)

    def _runs(self, words: list[str]) -> str:
        """Run within this process, as InProcessTerminal does, to save time."""
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
            patch.chdir(self._folder)
            patch.syspath_prepend(self._folder)
            patch.setattr(sys, "argv", words)
            for name, value in self._settings.items():
                patch.setenv(name, value)
            runpy.run_path(words[0], run_name="__main__")
            sys.modules.pop("app").jf.close()
        return out.getvalue().strip()

    @contextmanager
    def starts(self, script: str, **variables: str) -> Iterator[RunningProgram]:
        process = subprocess.Popen(
            [sys.executable, script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder,
            env=environment(**self._settings, **variables),
        )
        program = RunningProgram(process)
        try:
            yield program
        finally:
            process.terminate()
            process.wait()
            program.close()


def test_the_tutorial_works_as_described(
    database: Database, conn: Connection, folder: Path
) -> None:
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    port = _free_port()
    _write_files(folder, port)
    settings = {
        "JOBFORGE_DATABASE_URL": database.url,
        "JOBFORGE_TENANT": "acme",
        "JOBFORGE_SECRET_KEY": make_secret_key(),
        "JOBFORGE_EGRESS_ALLOW": f"127.0.0.1:{port}",
        "JOBFORGE_EGRESS_HTTP": "true",
    }
    reader = Reader(folder, **settings)
    with Terminal(folder, **settings).start("worker", "app.py") as worker:
        worker.wait_for("worker.started")
        outputs = _follow(reader, port)
        wait_until(lambda: _results(conn) >= _EXPECTED)
    outputs.check_page(port)
    assert outputs["python signup.py grace@example.com"] == ""
    assert "manual" in outputs["jobforge triggers firings"]
    assert "Dead since" in outputs["jobforge jobs explain"]


_EXPECTED = {
    "Welcome, to ada@example.com",
    "Welcome, to grace@example.com",
    "invoice for order 7: 120.00",
    "invoice for order 8: 45.00",
    "order 9 is on its way with goods for order 9 and invoice for order 9: 30.00",
    "sorry about order 10: make_invoice",
}


def _results(conn: Connection) -> set[str]:
    rows = conn.execute("select result from jobforge.finished_jobs where state = 'succeeded'")
    return {row["result"] for row in rows if isinstance(row["result"], str)}


def _follow(reader: Reader, port: str) -> "CommandOutputs":
    """Return the output of each command. The receiver starts where the page says so."""
    outputs = CommandOutputs()
    before, after = PAGE.split("$ WEBHOOK_SECRET=whsec_… python receiver.py\n")
    for line in _lines(before, port):
        outputs.note(line, reader.types(line))
    secret = outputs["jobforge webhooks create"]
    with reader.starts("receiver.py", WEBHOOK_SECRET=secret) as receiver:
        for line in _lines(after, port):
            outputs.note(line, reader.types(line))
        receiver.wait_for("job.succeeded invoice for order 8: 45.00")
    return outputs


class CommandOutputs:
    """Outputs by the beginning of their command."""

    def __init__(self) -> None:
        self._answers: list[tuple[str, str]] = []

    def note(self, line: str, answer: str) -> None:
        self._answers.append((line, answer))

    def __getitem__(self, beginning: str) -> str:
        return next(answer for line, answer in self._answers if line.startswith(beginning))

    def check_page(self, port: str) -> None:
        """Assert that each output that the page shows is in the output of its command."""
        answers = iter(self._answers)
        for line, words in _shown_words(port):
            if line.startswith((*_PREPARATIONS, "WEBHOOK_SECRET")):
                continue
            ran, answer = next(answers)
            assert ran == line
            assert [word for word in words if word not in answer] == [], (line, answer)


def _lines(text: str, port: str) -> Iterator[str]:
    """Return the commands, without those that prepare the environment, which the
    test does itself.
    """
    for line in re.findall(r"^\$ (.*)$", text, re.MULTILINE):
        if not line.startswith(_PREPARATIONS):
            yield line.replace(PORT, port)


# Words that differ from run to run: times and states of jobs that a worker is about to run. Also
# headings, which a terminal shows and a pipe does not, and a note, which is on stderr.
_UNSTEADY = re.compile(
    r".*….*|.* ago|in .*|\d.*|enqueued|succeeded|delivered|[A-Z ]+|At 03:00 every day.*"
)


def _shown_words(port: str) -> Iterator[tuple[str, list[str]]]:
    """Return the commands whose output the page shows, with the words of that output."""
    text = PAGE.replace(PORT, port)
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for command in re.split(r"^\$ ", "".join(blocks), flags=re.MULTILINE):
        line, *shown = command.splitlines() or [""]
        words = [word for each in shown for word in re.split(r"\s{2,}", each.strip())]
        if line:
            yield line, [word for word in words if word and not _UNSTEADY.fullmatch(word)]


def _write_files(folder: Path, port: str) -> None:
    """Write each block of the page to the file that its first line names."""
    parts: dict[str, list[str]] = defaultdict(list)
    for name, block in re.findall(
        r"^```python\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    ):
        parts[name].append(block.replace(PORT, port))
    assert len(parts) == 5
    for name, blocks in parts.items():
        (folder / name).write_text("\n\n".join(blocks), encoding="utf-8")


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
