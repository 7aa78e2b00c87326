"""Adds the changelog and the texts for programs to the documentation website.

`site_texts.py changelog` writes docs/changelog.md from CHANGELOG.md, before the site is built.
`site_texts.py texts` then writes the Markdown of every page into the site, `quickstart.md` next to
`quickstart/`, and an index of them, llms.txt (https://llmstxt.org).
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "site"
CHANGELOG = DOCS / "changelog.md"

_SECTION = re.compile(r"^  - (.+):$")
_PAGE = re.compile(r"^      - (.+): (\S+\.md)$")


def main(command: str) -> int:
    if command == "changelog":
        CHANGELOG.write_text(changelog(), encoding="utf-8")
    elif command == "texts":
        write_texts(SITE)
    else:
        sys.exit("changelog or texts")
    return 0


def changelog() -> str:
    """Return the changelog with links that are relative to the pages."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](")


def write_texts(site: Path) -> None:
    pages = dict(_read_pages())
    for name, text in pages.items():
        copy = site / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    (site / "llms.txt").write_text("".join(_index(pages)), encoding="utf-8")


def _read_pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page."""
    yield CHANGELOG.name, changelog()
    for page in sorted({*DOCS.rglob("*.md")} - {CHANGELOG}):
        yield page.relative_to(DOCS).as_posix(), page.read_text(encoding="utf-8")


def _index(pages: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of llms.txt: the pages by section, each with its first sentence."""
    yield f"# JobForge\n\n> {_first_sentence(pages['index.md'])}\n\n"
    yield "Links lead to the Markdown of each page. `jobforge docs PAGE` prints the same text.\n"
    for line in (ROOT / "mkdocs.yml").read_text(encoding="utf-8").splitlines():
        if section := _SECTION.match(line):
            yield f"\n## {section[1]}\n\n"
        elif page := _PAGE.match(line):
            yield f"- [{page[1]}]({page[2]}): {_first_sentence(pages[page[2]])}\n"


def _first_sentence(page: str) -> str:
    """Return the first sentence of a page without its links, or its title."""
    title, *paragraphs = page.split("\n\n")
    for paragraph in paragraphs:
        if re.match(r"\w|\*\*|`(?!``)", paragraph):
            text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
            first, *others = re.split(r"(?<=\.)\s", text.replace("**", ""))
            if first.startswith("`scripts/") and others:  # a generated page begins with its source
                first = others[0]
            return first.rstrip(":")
    return title.removeprefix("# ")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
