"""`jobforge run` runs a handler in the terminal's own process, without a database."""

from pathlib import Path

import pytest
from integration.terminal import Terminal

TENANT = "aaaaaaaa-0000-4000-8000-000000000000"

APP = """
from jobforge import Context, Dead, JobForge

jf = JobForge()

@jf.job
def add(a: int, b: int = 2) -> int:
    return a + b

@jf.job
async def greet(ctx: Context, name: str) -> dict[str, str]:
    ctx.log.info("greeting", to=name)
    await ctx.progress(1, 2, "half way")
    ctx.emit("greeted", {"name": name})
    return {"said": f"hello {name}", "tenant": str(ctx.tenant_id), "secret": ctx.secret("word")}

@jf.job
def fail() -> None:
    raise ConnectionError("no answer")

@jf.job
def give_up() -> None:
    raise Dead("no use")
"""


@pytest.fixture
def shell(tmp_path: Path) -> Terminal:
    (tmp_path / "app.py").write_text(APP)
    return Terminal(tmp_path, JOBFORGE_SECRET_WORD="sesame", JOBFORGE_TENANT=TENANT)


def test_the_result_is_printed_as_json(shell: Terminal) -> None:
    assert shell.read("run", "add", "a:=40") == "42"


def test_the_notes_of_a_job_are_printed_to_stderr(shell: Terminal) -> None:
    result = shell.run("run", "greet", "name=Ada", "--app", "app.py:jf")
    assert result.stdout == (f'{{"said": "hello Ada", "tenant": "{TENANT}", "secret": "sesame"}}\n')
    for words in ("greeting to=Ada", "progress 1/2 half way", "event greeted"):
        assert words in result.stderr


def test_a_failure_shows_the_line_of_the_handler(shell: Terminal) -> None:
    result = shell.run("run", "fail")
    assert (result.returncode, result.stdout) == (1, "")
    assert 'raise ConnectionError("no answer")' in result.stderr
    assert "record the attempt as failed" in result.stderr
    assert "jobforge/cli" not in result.stderr


def test_a_permanent_failure_is_reported_as_such(shell: Terminal) -> None:
    result = shell.run("run", "give_up")
    assert result.returncode == 1
    assert "no use" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["add"], 2, "a"),
        (["add", "a=many"], 2, "a"),
        (["add", "a:=1", "c:=1"], 2, "c"),
        (["no_such_job"], 3, "add, fail"),
        (["add", "a:=1", "--app", "other.py"], 2, "other.py"),
    ],
)
def test_a_usage_error_names_the_mistake(
    shell: Terminal, arguments: list[str], code: int, words: str
) -> None:
    result = shell.run("run", *arguments)
    assert (result.returncode, result.stdout) == (code, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_without_an_app_the_error_lists_the_ways_to_specify_one(tmp_path: Path) -> None:
    result = Terminal(tmp_path).run("run", "add")
    assert result.returncode == 2
    for way in ("app.py", "JOBFORGE_APP", "jobforge.toml"):
        assert way in result.stderr
