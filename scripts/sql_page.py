"""Write docs/sql.md, the reference of the SQL functions, from a template and a fresh database.

The template scripts/sql_page.md has the prose. A heading `### <name of a function>` starts an
entry: its first paragraph says what the function does, lines `@<name> <text>` describe arguments
and result columns, and the rest follows the generated parts. Lines after `%%` describe names that
mean the same in several entries. The signature and the roles come from the catalog, the errors
from the header of the function's file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from fresh_database import Connection

from jobforge.db.schema_files import function_files

TEMPLATE = Path(__file__).with_suffix(".md")
PAGE = Path(__file__).parent.parent / "docs" / "sql.md"
WIDTH = 100

_FUNCTIONS = """
select p.proname as name, pg_get_function_arguments(p.oid) as arguments,
       pg_get_function_result(p.oid) as result, p.prosrc as source,
       array(select r.role from unnest(%s::text[]) with ordinality as r(role, place)
              where has_function_privilege('jobforge_' || r.role, p.oid, 'execute')
              order by r.place) as roles
  from pg_proc as p
 where p.pronamespace = 'jobforge'::regnamespace
   and has_function_privilege('jobforge_server', p.oid, 'execute')
"""
_ROLES = ["client", "service", "worker", "admin", "backup"]
# The readers of the index, and the roles whose functions are for them. The first match applies.
_AUDIENCES = {
    "Functions for applications": ["client", "service"],
    "Functions for workers and schedulers": ["worker"],
    "Functions for operators": ["admin", "backup"],
    "Functions for the HTTP server": [],
}


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    arguments: list[str]
    result: str
    columns: list[str]
    roles: list[str]
    most_rows: int | None


@dataclass(slots=True)
class Writer:
    functions: dict[str, Function]
    errors: dict[str, dict[str, str]]
    shared: dict[str, str]
    # The entry that first described a list of columns.
    described: dict[tuple[str, ...], str] = field(default_factory=dict)

    def entry(self, name: str, body: str) -> Iterator[str]:
        function = self.functions[name]
        notes = dict(re.findall(r"^@(\w+) (.*)$", body, re.MULTILINE))
        head, *rest = re.split(r"\n{2,}", re.sub(r"^@.*\n", "", body, flags=re.MULTILINE).strip())
        arguments = [_name_of(each) for each in function.arguments]
        columns = [_name_of(each) for each in function.columns]
        if unknown := notes.keys() - {*arguments, *columns}:
            raise SystemExit(f"{name} has no argument or column {', '.join(sorted(unknown))}")
        yield f"### {name}\n"
        yield f"```text\n{_signature(function)}\n```\n"
        yield f"{head}\n"
        yield from self._table("Argument", function, arguments, notes)
        earlier = self.described.get(tuple(columns))
        if earlier and not notes.keys() & set(columns):
            yield f"The columns are those of [`{earlier}`](#{earlier}).\n"
        else:
            yield from self._table("Column", function, columns, notes)
            if columns:
                self.described[tuple(columns)] = name
        yield f"Roles: {self._roles(function)}. Errors: {self._errors(name)}.\n"
        yield from (f"{paragraph}\n" for paragraph in rest)

    def _table(
        self, kind: str, function: Function, names: list[str], notes: dict[str, str]
    ) -> Iterator[str]:
        # The page describes p_tenant_id once, before the entries.
        rows = [each for each in names if each != "p_tenant_id" or each in notes]
        if not rows:
            return
        yield f"| {kind} | Description |\n|---|---|"
        for row in rows:
            yield f"| `{row}` | {notes.get(row) or self._shared(function, row)} |"
        yield ""

    def _shared(self, function: Function, name: str) -> str:
        if name not in self.shared:
            raise SystemExit(f"{TEMPLATE.name} does not describe {name} of {function.name}")
        if name == "p_limit" and function.most_rows:
            return f"{self.shared[name]}, 1 to {function.most_rows:,}"
        return self.shared[name]

    def _roles(self, function: Function) -> str:
        return ", ".join(f"`jobforge_{role}`" for role in function.roles) or "`jobforge_server`"

    def _errors(self, name: str) -> str:
        found = sorted(self.errors[name].items())
        return ", ".join(f"`{code}`{reason and f' ({reason})'}" for code, reason in found) or "none"


def page(conn: Connection) -> str:
    text, shared = TEMPLATE.read_text(encoding="utf-8").split("\n%%\n")
    rows = conn.execute(_FUNCTIONS, [_ROLES])
    functions = {row["name"]: _function(row) for row in rows}
    writer = Writer(
        functions, _read_errors(functions), dict(re.findall(r"^@(\w+) (.*)$", shared, re.MULTILINE))
    )
    parts = re.split(r"^(?=##+ )", text, flags=re.MULTILINE)
    names = [_entry_name(part, functions) for part in parts]
    if names_without := functions.keys() - set(names):
        raise SystemExit(f"{TEMPLATE.name} has no entry for {', '.join(sorted(names_without))}")
    written = [
        "\n".join(writer.entry(name, part.split("\n", 1)[1])) + "\n" if name else part
        for part, name in zip(parts, names, strict=True)
    ]
    return "".join(written).replace("{{index}}", _index(parts, names, functions)).rstrip() + "\n"


def _function(row: dict[str, Any]) -> Function:
    arguments = _split(row["arguments"])
    columns = re.findall(r"^TABLE\((.*)\)$", row["result"])
    # INOUT arguments are also columns of the result.
    outputs = [each for each in arguments if each.startswith(("INOUT ", "OUT "))]
    most = re.search(r"check_limit\(p_limit, (\d+)\)", row["source"])
    return Function(
        name=row["name"],
        arguments=[each.removeprefix("INOUT ") for each in arguments if each[:4] != "OUT "],
        result=_plain(row["result"]),
        columns=_split(columns[0]) if columns else [_output(each) for each in outputs],
        roles=row["roles"],
        most_rows=int(most[1]) if most else None,
    )


def _split(declarations: str) -> list[str]:
    parts = re.split(r", (?=(?:INOUT |OUT )?\w+ \w)", declarations)
    return [_plain(part) for part in parts if part]


def _plain(declaration: str) -> str:
    """Shorten `p_at timestamp with time zone DEFAULT NULL::timestamp with time zone`."""
    text = declaration.replace("timestamp with time zone", "timestamptz")
    text = re.sub(r" DEFAULT (.*?)(::[\w\[\] ]+)?$", r" = \1", text)
    return text.replace("= NULL", "= null")


def _output(argument: str) -> str:
    return re.sub(r"^(?:INOUT|OUT) | = .*", "", argument)


def _name_of(declaration: str) -> str:
    return declaration.partition(" ")[0]


def _signature(function: Function) -> str:
    kind = f"table ({', '.join(function.columns)})" if function.columns else function.result
    line = f"{function.name}({', '.join(function.arguments)}) → {kind}"
    if len(line) <= WIDTH:
        return line
    first = _wrap(f"{function.name}(", function.arguments, ")")
    second = _wrap("  → table (", function.columns, ")") if function.columns else f"  → {kind}"
    return f"{first}\n{second}"


def _wrap(start: str, items: list[str], end: str) -> str:
    """Fill lines with whole items, below the first one."""
    lines, indent = [start], " " * len(start)
    for place, item in enumerate(items):
        text = item + (end if place == len(items) - 1 else ",")
        if len(lines[-1]) + len(text) >= WIDTH and lines[-1].strip() and lines[-1] != start:
            lines.append(indent)
        lines[-1] += text if lines[-1].endswith(("(", " ")) else f" {text}"
    return "\n".join(lines) if items else start + end


def _entry_name(part: str, functions: dict[str, Function]) -> str | None:
    heading = re.match(r"### (\w+)\n", part)
    return heading[1] if heading and heading[1] in functions else None


def _index(parts: list[str], names: list[str | None], functions: dict[str, Function]) -> str:
    rows: dict[str, dict[str, list[str]]] = {audience: {} for audience in _AUDIENCES}
    section = ""
    for part, name in zip(parts, names, strict=True):
        if part.startswith("## "):
            section = part.splitlines()[0].removeprefix("## ")
        elif name:
            subjects = rows[_find_audience(functions[name].roles)]
            subjects.setdefault(section, []).append(f"[`{name}`](#{name})")
    return "\n\n".join(_index_table(audience, subjects) for audience, subjects in rows.items())


def _find_audience(roles: list[str]) -> str:
    for audience, members in _AUDIENCES.items():
        if not members or set(members) & set(roles):
            return audience
    raise ValueError(roles)


def _index_table(audience: str, subjects: dict[str, list[str]]) -> str:
    rows = [
        f"| [{section}](#{re.sub(r'[^a-z0-9]+', '-', section.lower())}) | {', '.join(links)} |"
        for section, links in subjects.items()
    ]
    return "\n".join([f"{audience}:", "", "| Subject | Functions |", "|---|---|", *rows])


def _read_errors(functions: dict[str, Function]) -> dict[str, dict[str, str]]:
    """Return the SQLSTATEs that each function raises, with the reasons that its header gives."""
    headers = {path.stem: _header(path) for path in function_files()}
    return {name: _raised(name, headers) for name in functions}


def _header(path: Path) -> str:
    """Return the comment at the start of a file as one line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = takewhile(lambda line: line.startswith("--"), lines)
    return " ".join(line.removeprefix("--").strip() for line in comment)


def _raised(name: str, headers: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for sentence in re.findall(
        r"(?:Raises|and raises|and errors are those of) .*?(?:\.(?= |$)|$)", headers[name]
    ):
        # "Raises what enqueue_jobs raises": a function that it calls raises these errors.
        [others] = re.findall(r"(?:what|those of) (.*)|$", sentence)[:1]
        named = [each for each in re.findall(r"\w+_\w+", others) if each in headers]
        for other in named:
            for code, reason in _raised(other, headers).items():
                if code.startswith("JF"):
                    found[code] = reason if len(named) == 1 else ""
        for code, last, reason in re.findall(
            r"\b(JF\d{3}|\d{5})(?: to (JF\d{3}))?"
            r"(?: (\([^()]*\)|(?:if|for|in|outside) (?:[^,.;]|\.\w)*))?",
            sentence,
        ):
            if last:
                numbers = range(int(code[2:]), int(last[2:]) + 1)
                found |= {f"JF{number:03}": "" for number in numbers}
            else:
                found[code] = _reason(reason)
    return found


def _reason(text: str) -> str:
    """Return a reason of a header without parentheses, and names and levels as code."""
    text = text.removeprefix("(").removesuffix(")").removesuffix(" and")
    return re.sub(r"\b(p_\w+|app\.tenant_id|READ COMMITTED)", r"`\1`", text)
