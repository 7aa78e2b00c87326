"""The documentation is consistent.

Every page can be found, every link has a target, every Python block can be parsed, and every
command exists. Other tests, one file per page, run the blocks.
"""

import ast
import json
import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import cli_page
import errors_page
import pytest
import python_page
import site_texts
import typescript_page
from typer.main import get_command

import jobforge
from jobforge import testing
from jobforge.cli import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted({*DOCS.rglob("*.md")} - {site_texts.CHANGELOG})  # make docs writes that page
READ_ELSEWHERE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
EXAMPLES = sorted((ROOT / "examples").rglob("*.md"))
COMMANDS = get_command(app)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _prose(page: Path) -> str:
    """Return the page without its code blocks, in which `#` does not begin a heading."""
    return re.sub(r"^```.*?^```", "", _text(page), flags=re.MULTILINE | re.DOTALL)


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r": (\S+\.md)$", _text(ROOT / "mkdocs.yml"), re.MULTILINE)
    decisions = re.findall(r"\]\((\d{4}-\S+\.md)\)", _text(DOCS / "decisions" / "README.md"))
    listed += [f"decisions/{name}" for name in decisions]
    listed.remove(site_texts.CHANGELOG.name)
    assert sorted(listed) == [str(page.relative_to(DOCS)) for page in PAGES]


def test_links_of_the_changelog_lead_to_pages() -> None:
    for path in re.findall(r"\]\(([^)\s#:]+\.md)", site_texts.changelog()):
        assert (DOCS / path).exists(), path


def test_the_site_has_every_page_as_markdown_and_an_index_of_them(tmp_path: Path) -> None:
    site_texts.write_texts(tmp_path)
    index = _text(tmp_path / "llms.txt")
    assert index.startswith("# JobForge\n\n> ")
    shown = re.findall(r"^- \[.+\]\((\S+\.md)\): \S", index, re.MULTILINE)
    assert shown == re.findall(r": (\S+\.md)$", _text(ROOT / "mkdocs.yml"), re.MULTILINE)
    assert _text(tmp_path / "changelog.md") == site_texts.changelog()
    for page in PAGES:
        assert _text(tmp_path / page.relative_to(DOCS)) == _text(page)


@pytest.mark.parametrize("page", [*PAGES, *READ_ELSEWHERE, *EXAMPLES], ids=_name)
def test_links_have_an_existing_page_and_heading(page: Path) -> None:
    for path, anchor in re.findall(r"\]\(([^)\s#:]*)(?:#([^)\s]*))?\)", _prose(page)):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if DOCS in page.parents:
            assert DOCS in target.parents, f"{path} is not part of the site"
        if anchor:
            assert anchor in _anchors(target), f"{path}#{anchor}"


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors of the headings on which the site and GitHub agree."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    words = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"\s", "-", text) for text in words if not re.search(r"[-\s]{2,}", text)}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=_name)
def test_every_block_of_python_can_be_parsed(page: Path) -> None:
    blocks = re.findall(r"^```py(?:thon)?\n(.*?)^```", _text(page), re.MULTILINE | re.DOTALL)
    for number, block in enumerate(blocks, 1):
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        compile(block, f"{page.name}, example {number}", "exec", flags=flags)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_of_data_and_shell_can_be_parsed(page: Path) -> None:
    pattern = r"^```(json|toml|bash|sh)\n(.*?)^```"
    for language, block in re.findall(pattern, _text(page), re.MULTILINE | re.DOTALL):
        if language == "json":
            json.loads(block)
        elif language == "toml":
            tomllib.loads(block)
        else:
            subprocess.run(["/bin/bash", "-n"], input=block, text=True, check=True)


@pytest.mark.parametrize(
    "script", [errors_page, python_page, typescript_page], ids=lambda each: each.__name__
)
def test_a_generated_page_is_current(script: Any) -> None:
    assert _text(script.PAGE) == script.page(), "run: make pages"


def test_the_page_of_logs_has_every_event() -> None:
    sources = [*(ROOT / "jobforge").rglob("*.py"), *(ROOT / "sdks/typescript/src").rglob("*.ts")]
    emitted = re.compile(r'\b(?:emit|make_line|_repeat)\(\s*"([a-z]+\.[a-z_]+)"')
    events = {event for source in sources for event in emitted.findall(_text(source))}
    assert len(events) > 40
    page = _text(DOCS / "logs.md")
    assert [event for event in sorted(events) if f"`{event}`" not in page] == []


def test_the_python_reference_has_every_public_name() -> None:
    assert {*jobforge.__all__, *testing.__all__} <= python_page.names()


def test_the_command_reference_is_current() -> None:
    current = _text(cli_page.PAGE)
    assert current == cli_page.page(current), "run: make pages"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", *EXAMPLES], ids=_name)
def test_commands_that_a_page_shows_exist_with_their_options(page: Path) -> None:
    shown = re.sub(r"'[^']*'", "TEXT", _text(page).replace("\\\n", " "))
    for line in re.findall(r"^\$ (.*)$", shown, re.MULTILINE):
        inner = re.findall(r"\$\((.*?)\)", line)
        for command in [*inner, re.sub(r"\$\(.*?\)", "ID", line)]:
            for words in re.findall(r"(?<![\w=-])jobforge ([^|>#]*)", command):
                _check_command(words.split())


def _check_command(words: list[str]) -> None:
    command: Any = COMMANDS
    known = {"--help"}
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
        known |= {option for each in command.params for option in each.opts + each.secondary_opts}
    is_group = hasattr(command, "commands") and not command.invoke_without_command
    assert not is_group, f"jobforge … {words}"
    for word in words:
        name = word.split("=")[0]
        assert not name.startswith("--") or name in known, f"{command.name}: {name}"
