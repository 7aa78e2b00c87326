"""Check the rules for this project's SQL that no other tool checks.

- Every file parses, and opens with a comment that describes it.
- No line is longer than 100 characters, unless it is a single string literal, which stays whole.
- Keywords are in lower case.
- A security definer function pins its search_path.
- A statement that updates or deletes jobs compares lease or state in its WHERE, because a row that
  was read earlier may have changed. Where that is not needed, a comment on the line above says why:
  `-- lint: reason`.
- Each folder of functions has a guide, 00_README.sql: comments that list all public functions of
  the folder. The calls in its call tree exist.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pglast
from pglast import ast

from jobforge.db.schema_files import GUIDE

SQL = Path(__file__).parent.parent / "jobforge" / "sql"

_CHANGE_OF_JOBS = re.compile(r"\b(?:update|delete\s+from)\s+(?:only\s+)?jobforge\.jobs\b")
_UPPER_CASE_WORD = re.compile(r"\s*[A-Z]{2,}\b")
_LONGEST_LINE = 100
_UNBREAKABLE = re.compile(r"\s*(?:'[^']*'|\S)*+$")  # spaces only at the start and in literals
_BRACKETS = {"(": 1, ")": -1}
_PUBLIC_FUNCTION = re.compile(r"^create or replace function jobforge\.(\w+)", re.MULTILINE)
_CALLS = re.compile(r"^--   (\w+) -> ((?:\w+(?:,\s(?:--\s+)?)?)+)$", re.MULTILINE)


def main() -> int:
    files = sorted(SQL.rglob("*.sql"))
    faults = [
        f"{path.relative_to(SQL.parent.parent)}:{fault}" for path in files for fault in lint(path)
    ]
    faults += lint_guides(SQL / "functions")
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(files)} SQL files, {len(faults)} faults")
    return 1 if faults else 0


def lint(path: Path) -> Iterator[str]:
    """Yield the faults of a file as `line: what is wrong`."""
    text = path.read_text(encoding="utf-8")
    yield from _long_lines(text)
    if path.name == "rls_test.sql":  # a psql script, with commands that are not SQL
        return
    if not text.startswith("-- "):
        yield "1: opens with no comment that describes the file"
    yield from _upper_case(text)
    yield from _unguarded_changes(text)
    try:
        statements = pglast.parse_sql(text)
    except pglast.parser.ParseError as error:
        yield f"{_line(text, error.args[1] or len(text))}: does not parse: {error}"
        return
    yield from _definers_without_search_path(text, statements)


def lint_guides(root: Path) -> Iterator[str]:
    """Yield the faults of the guides below a folder of functions as `path: what is wrong`."""
    functions = {path.stem: path for path in root.rglob("*.sql") if path.name != GUIDE}
    code = {
        name: re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
        for name, path in functions.items()
    }
    for folder in sorted({path.parent for path in functions.values()}):
        guide = folder / GUIDE
        if not guide.exists():
            yield f"{folder.relative_to(root)}: has no {GUIDE}"
            continue
        text = guide.read_text(encoding="utf-8")
        name = guide.relative_to(root)
        if any(line and not line.startswith("--") for line in text.splitlines()):
            yield f"{name}: has more than comments"
        public = {
            function
            for stem, path in functions.items()
            if path.parent == folder
            for function in _PUBLIC_FUNCTION.findall(code[stem])
        }
        for function in sorted(public - set(re.findall(r"^--   (\w+)  ", text, re.MULTILINE))):
            yield f"{name}: does not list {function}"
        for caller, called in _CALLS.findall(text):
            for callee in re.findall(r"\w+", called):
                if not re.search(rf"\bjobforge(?:_private)?\.{callee}\(", code.get(caller, "")):
                    yield f"{name}: {caller} does not call {callee}"


def _long_lines(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > _LONGEST_LINE and not _UNBREAKABLE.match(line):
            yield f"{number}: is longer than {_LONGEST_LINE} characters"


def _upper_case(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if _UPPER_CASE_WORD.match(line):
            yield f"{number}: starts with an upper-case word"


def _unguarded_changes(text: str) -> Iterator[str]:
    for change in _CHANGE_OF_JOBS.finditer(text):
        where = _where_of(text[change.end() :])
        if not re.search(r"\b(lease|state)\b", where) and not _is_excused(text, change.start()):
            yield f"{_line(text, change.start())}: changes jobs without comparing lease or state"


def _where_of(rest: str) -> str:
    """Return the WHERE clause of the statement that continues with `rest`."""
    depth = 0
    for position, character in enumerate(rest):
        depth += _BRACKETS.get(character, 0)
        if depth < 0 or (depth == 0 and character == ";"):
            rest = rest[:position]
            break
    return re.split(r"\breturning\b", rest.partition("where")[2])[0]


def _is_excused(text: str, position: int) -> bool:
    lines = text[:position].splitlines()
    return any("-- lint: " in line for line in lines[-2:])


def _definers_without_search_path(text: str, statements: tuple[ast.RawStmt, ...]) -> Iterator[str]:
    for statement in statements:
        function = statement.stmt
        if not isinstance(function, ast.CreateFunctionStmt):
            continue
        options = {option.defname: option.arg for option in function.options or ()}
        settings = [option.arg.name for option in function.options or () if option.defname == "set"]
        if "security" in options and options["security"].boolval and "search_path" not in settings:
            line = _line(text, statement.stmt_location or 0)
            yield f"{line}: a security definer function without a pinned search_path"


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


if __name__ == "__main__":
    sys.exit(main())
