"""`jobforge docs`: print a page of the documentation. The wheel contains the pages as Markdown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from jobforge.cli.command_group import CommandGroup
from jobforge.cli.options import NoHeader, suggest_similar
from jobforge.cli.output import print_rows
from jobforge.errors import NotFound

app = CommandGroup()

_PACKAGE = Path(__file__).parents[2]
_INTERNAL = "decisions"  # a folder for contributors, which the wheel does not contain


@app.command()
def docs(
    page: Annotated[
        str | None,
        typer.Argument(
            metavar="PAGE", help="Name of a page, such as quickstart. Default: list them."
        ),
    ] = None,
    *,
    no_header: NoHeader = False,
) -> None:
    """Print a documentation page as Markdown, or list the pages."""
    pages = dict(_find_pages())
    if page is None:
        rows = [{"page": name, "title": _title(file)} for name, file in pages.items()]
        print_rows(rows, as_json=False, no_header=no_header)
        return
    name = page.removesuffix(".md")
    if name not in pages:
        hint = suggest_similar(name, pages) or "Run `jobforge docs` to list the pages"
        raise NotFound(f"Page {page!r} not found", hint=hint)
    typer.echo(pages[name].read_text(encoding="utf-8"), nl=False)


def _find_pages() -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of each page: from the wheel, or from the clone in use."""
    folder = _PACKAGE / "docs"
    if not folder.is_dir():
        folder = _PACKAGE.parent / "docs"
    for file in sorted(folder.rglob("*.md")):
        name = file.relative_to(folder).with_suffix("").as_posix()
        if not name.startswith(f"{_INTERNAL}/"):
            yield name, file


def _title(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return lines.readline().removeprefix("# ").strip()
