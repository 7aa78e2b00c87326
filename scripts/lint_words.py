"""Find words and tables that newcomers stumble over, in code, comments and documentation.

- Words and phrases of the project's first version that are not plain English. `WORDS` has
  the replacement of each.
- Tables in Markdown whose header row has an empty cell.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SUFFIXES = {".css", ".html", ".md", ".py", ".sh", ".sql", ".toml", ".ts", ".tsx", ".yaml", ".yml"}
FOLDERS_WITHOUT_RULES = ("tests/typing/",)
FILES_WITHOUT_RULES = {"scripts/lint_words.py"}  # it names the words
WORDS = {
    r"mend(?:s|ed|ing)?": "fix",
    r"anew": "again, restart or re-create",
    r"from afar": "remotely",
    r"what (?:became|becomes|came) of": "status, outcome or result of",
    r"whoever": "name the actor",
    r"as above": "give the reason",
    r"for ever": "forever or indefinitely",
    r"once more": "again",
    r"(?:is|are) told": "is notified, receives",
    r"nobody is there": "no worker is connected",
    r"of before": "previous",
    r"so many": "a number of, N",
    r"astray": "in the default partition",
    r"dlq": "failures",
    r"hand(?:s|ed|ing)?[ _]back": "release",
    r"is_back": "has_recurred",
    r"(?:\w+_)?strays": "rows in the default partition",
    r"upkeep(?:_\w+)?|\w+_upkeep(?:_\w+)?": "maintenance",
    r"waiting_turn": "waiting_slot",
    r"\w+_dead_letters?": "dead jobs",
    r"is_whole": "name what is complete",
}
_WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
_SEPARATOR = re.compile(r"\|(?:\s*:?-+:?\s*\|)+\s*")


def main() -> int:
    faults = [fault for path in list_files() for fault in lint(path)]
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(faults)} faults of wording")
    return 1 if faults else 0


def list_files() -> list[Path]:
    """Return the tracked text files that the rules apply to."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - from PATH
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return [
        ROOT / name
        for name in listed
        if (Path(name).suffix in SUFFIXES or Path(name).name == "Makefile")
        and not name.startswith(FOLDERS_WITHOUT_RULES)
        and name not in FILES_WITHOUT_RULES
        and (ROOT / name).is_file()
    ]


def lint(path: Path) -> Iterator[str]:
    """Yield each fault as `file:line: what is wrong`."""
    name = path.relative_to(ROOT)
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        for match in _WORD.finditer(line):
            yield f'{name}:{number}: "{match[0]}": {_find_replacement(match[0])}'
    if path.suffix == ".md":
        for number, line in enumerate(lines[1:], 2):
            if _SEPARATOR.fullmatch(line) and _has_empty_cell(lines[number - 2]):
                yield f"{name}:{number - 1}: a column of the table has no header"


def _find_replacement(found: str) -> str:
    for pattern, replacement in WORDS.items():
        if re.fullmatch(pattern, found, re.IGNORECASE):
            return replacement
    raise AssertionError(found)


def _has_empty_cell(header: str) -> bool:
    return any(not cell.strip() for cell in header.strip().strip("|").split("|"))


if __name__ == "__main__":
    sys.exit(main())
