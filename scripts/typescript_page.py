"""Writes docs/typescript-api.md, the TypeScript API reference, from the sources of the SDK.

The page has every export of `@jobforge/sdk` and of its entry points `worker` and `http`. The script
relies on the style of the sources, which the formatter enforces: one declaration per block, with
the closing brace in the column of its first line.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "sdks" / "typescript" / "src"
PAGE = ROOT / "docs" / "typescript-api.md"

_HEAD = """\
# TypeScript API

This page lists all exports of `@jobforge/sdk` and of its entry points. It is generated from the
source code of the SDK by `scripts/typescript_page.py`. [TypeScript](typescript.md) is the guide.
A value after `=` in a signature is the parameter's default.

```ts
import { JobForge } from "@jobforge/sdk";
import { z } from "zod";

const jf = new JobForge("postgresql://app@db.example.com/app", { tenant: "acme" });
const double = jf.job(
  "double",
  { params: z.object({ number: z.number() }), result: z.number() },
  (ctx, { number }) => 2 * number,
);

await jf.register();
const handle = await double.using({ priority: 10 }).enqueue({ number: 21 });
console.log(await handle.result({ timeout: "30s" })); // 42, if a worker runs
```

The examples below continue this one. Enqueue in a transaction (`JobForge`, `Enqueuer`):

```ts
await jf.transaction("acme", async (tx) => {
  await tx.query("insert into numbers (number) values ($1)", [21]);
  await double.using({ conn: tx, key: "number:21" }).enqueue({ number: 21 });
});
```

Query, cancel and retry jobs (`Client`):

```ts
const dead = await jf.client.listJobs({ state: ["dead"], definition: "double" });
for (const job of dead) await jf.client.retryJob(job.id);
console.log(await jf.client.explainJob(handle.id));
```

Enqueue over HTTP, without a database connection (`ServerClient`):

```ts
import { ServerClient } from "@jobforge/sdk/http";

const server = new ServerClient({ url: "https://jobs.example.com", key: "jf_…" });
const created = await server.enqueue({ definition: "double", payload: { number: 21 } });
console.log((await server.getJob(created.id)).state);
```

[TypeScript workers](typescript-worker.md#run-a-worker-in-your-own-program) has an example of
`Worker`, and [TypeScript](typescript.md#steps) of `Context` with steps.
"""

# Each package: its module, its groups of exports, and types that are not exported but used in
# signatures, with their files.
_SECTIONS: dict[str, tuple[str, dict[str, tuple[str, ...]], dict[str, str]]] = {
    "Package `@jobforge/sdk`": (
        "index.ts",
        {
            "Apps": ("JobForge", "AppOptions", "Client"),
            "Definitions and enqueuing": (
                *("Definition", "JobOptions", "RetryPolicy", "Rate", "Handler", "Upgrade"),
                *("Enqueuer", "Using", "Many", "Handle", "Queryable"),
            ),
            "Handlers": ("Context", "Log", "Event", "Stored"),
            "Outcomes of a handler": ("Retry", "Snooze", "Cancel", "Dead", "Cancelled"),
            "Jobs": (
                *("Job", "JobListing", "JobFilter", "History", "Explanation", "JobEvent"),
                *("State", "FinalState", "Enqueued", "EnqueueStatus"),
            ),
            "Secrets and webhooks": (
                *("registerSecret", "redact", "redactText"),
                *("verifyWebhook", "WebhookHeaders", "WebhookMessage"),
            ),
            "Errors and values": ("errors", "Duration", "Json", "JsonObject"),
        },
        {
            "DatabaseOptions": "db/database.ts",
            "Isolation": "sdk/definition-settings.ts",
            "Size": "sdk/definition-settings.ts",
            "StartHook": "sdk/hooks.ts",
            "SuccessHook": "sdk/hooks.ts",
            "FailHook": "sdk/hooks.ts",
            "EndHook": "sdk/hooks.ts",
            "Scalar": "sdk/step-log.ts",
            "Page": "types/jobs.ts",
            "PgHandle": "db/queryable.ts",
            "KyselyHandle": "db/queryable.ts",
            "DrizzleHandle": "db/queryable.ts",
            "PrismaHandle": "db/queryable.ts",
            "PostgresJsHandle": "db/queryable.ts",
        },
    ),
    "Package `@jobforge/sdk/worker`": (
        "worker/index.ts",
        {"Workers": ("Worker", "WorkerOptions", "configureLogs", "LogSettings")},
        {
            "IsolationOptions": "worker/isolation/runner.ts",
            "Level": "observability/logs.ts",
            "Write": "observability/logs.ts",
        },
    ),
    "Package `@jobforge/sdk/http`": (
        "http/index.ts",
        {
            "Client of the HTTP API": ("ServerClient", "ServerOptions"),
            "Requests and responses": (
                *("NewJob", "CreatedJob", "ServedJob", "JobHistory", "ListQuery", "JobPage"),
                *("PreviewRequest", "Preview", "components", "operations", "paths"),
            ),
        },
        {},
    ),
}

# Classes whose members users see through an exported class, and the types with which the exported
# class replaces their parameters.
_BASES: dict[str, tuple[str, str, dict[str, str]]] = {
    "Context": ("DurableContext", "sdk/durable.ts", {}),
    "Definition": ("Enqueuer", "sdk/enqueue.ts", {"I": "z.input<P>"}),
}

# Members for workers and other modules of the SDK.
_INTERNAL = {
    "[BRAND]",
    *("buildRegistration", "buildRegistrations", "database", "dump", "handle", "handler"),
    *("hasFollowUpHooks", "hooks", "invoke", "params", "readResult", "requestStop"),
    *("requests", "servedVersions", "settings", "wasCompleted", "withJobFields"),
}
_INTERNAL_OF = {
    "Client": {"constructor", "emit", "enqueue", "tenantId"},
    "Context": {"constructor"},
    "Definition": {"constructor", "result"},
    "DurableContext": {"constructor", "channel", "job"},
    "Enqueuer": {"constructor"},
    "Handle": {"constructor"},
    "Log": {"constructor"},
    "JobForge": {"definitions"},
}

# Names in the sources, and what the page shows instead.
_SHOWN = {
    "calls.": "",
    "EngineClient": "Client",
    "typeof NOTHING": "z.ZodObject<{}>",
    "=> Awaitable": "=> void | Promise<void>",
}

# Exports whose declaration is not worth showing.
_TEXTS = {
    "errors": "The error classes, such as `errors.NotFound`. [Error codes](errors.md) lists them."
    " Each error has `code`, `message`, `field`, `detail` and `hint`.",
    "components": "The types of the objects of the [HTTP API](api.md), by name:"
    ' `components["schemas"]["Job"]`.',
    "operations": "The types of parameters, bodies and responses of the HTTP API, by operation.",
    "paths": "The types of the HTTP API by path.",
}

_EXPORT = re.compile(
    r"^export (type )?\{(?P<names>[^}]*)\} from \"(?:\./)?(?P<file>[^\"]+)\"", re.MULTILINE
)
_NAMESPACE = re.compile(r"^export \* as (?P<name>\w+) from", re.MULTILINE)
_STAR = re.compile(r"^export \* from \"(?:\./)?(?P<file>[^\"]+)\"", re.MULTILINE)
_DECLARATION = re.compile(
    r"^export (?:async )?(?P<kind>class|interface|type|function|const) (?P<name>\w+)", re.MULTILINE
)
_MEMBER = re.compile(
    r"^  (?!private |protected |override )(?:async |readonly |get )*(?P<name>\[?\w+\]?)[?]?[<(:; =]"
)
_PRIVATE = re.compile(r"^  (?:async |readonly |get )*#")
_VALUES = re.compile(r"\(typeof (\w+)\)\[number\]")


def page() -> str:
    parts = [_HEAD]
    for title, (entry, groups, others) in _SECTIONS.items():
        parts.append(f"## {title}\n")
        found = exports(entry)
        listed = [name for names in groups.values() for name in names]
        if sorted(listed) != sorted(found):
            raise ValueError(f"{entry}: not in one group: {set(listed) ^ set(found)}")
        used = {"Types in signatures": tuple(others)} if others else {}
        files = found | {name: (name, file) for name, file in others.items()}
        parts.append("| Subject | Exports |\n|---|---|")
        parts += [f"| {group} | {_link(names)} |" for group, names in groups.items()]
        parts.append("")
        for group, names in (groups | used).items():
            parts.append(f"### {group}\n")
            if group in used:
                parts.append("Signatures use these types. The package does not export them.\n")
            for name in names:
                parts += _export(name, *files[name])
    return "\n".join(parts)


def _link(names: tuple[str, ...]) -> str:
    return ", ".join(f"[{name}](#{name.lower()})" for name in names)


def exports(entry: str) -> dict[str, tuple[str, str]]:
    """Return the exports of a module: the name in its own module, and that module's file."""
    text = _read(entry)
    found: dict[str, tuple[str, str]] = {}
    for match in _EXPORT.finditer(text):
        for each in match["names"].replace("type ", "").split(","):
            if each.strip():
                original, _, name = each.strip().partition(" as ")
                found[name or original] = (original, _resolve(entry, match["file"]))
    for match in _STAR.finditer(text):
        file = _resolve(entry, match["file"])
        for declaration in _DECLARATION.finditer(_read(file)):
            found[declaration["name"]] = (declaration["name"], file)
    return found | {match["name"]: ("", "") for match in _NAMESPACE.finditer(text)}


def _export(name: str, original: str, file: str) -> Iterator[str]:
    yield f"#### {name}\n"
    if name in _TEXTS:
        yield f"{_wrap(_TEXTS[name])}\n"
        return
    comment, declaration = _find(original, file)
    if not comment:
        raise ValueError(f"{file}: {original} has no comment")
    yield f"{_wrap(comment)}\n"
    kept = list(_without_internals(name, declaration))
    if name in _BASES:
        base, base_file, types = _BASES[name]
        inherited = [*_without_internals(base, _find(base, base_file)[1])][1:-1]
        for parameter, kind in types.items():
            inherited = [_replace_type(line, parameter, kind) for line in inherited]
        kept = [*kept[:-1], "", *inherited, kept[-1]]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept))
    text = text.replace("{\n\n", "{\n").replace("\n\n}", "\n}")
    if original != name:
        text = text.replace(original, name, 1)
    for written, shown in _SHOWN.items():
        text = text.replace(written, shown)
    yield f"```ts\n{_VALUES.sub(lambda found: _values(found[1], file), text)}\n```\n"


def _replace_type(line: str, parameter: str, kind: str) -> str:
    """Return the line with another type for a parameter, unless it is a comment."""
    if line.lstrip().startswith(("/**", "*")):
        return line
    return re.sub(rf"\b{parameter}\b", kind, line)


def _wrap(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _values(constant: str, file: str) -> str:
    """Return the values of a constant array as a union."""
    (values,) = re.findall(rf"{constant} = \[(.*?)\] as const", _read(file), re.DOTALL)
    return " | ".join(re.findall(r'"\w+"', values))


def _find(name: str, file: str) -> tuple[str, list[str]]:
    """Return the comment of a declaration and its lines, without `export`."""
    lines = _read(file).splitlines()
    starts = (at for at, line in enumerate(lines) if _declared_name(line) == name)
    start = next(starts, None)
    if start is None:  # exported again from another module
        return _find(*exports(file)[name])
    end = next(at for at in range(start, len(lines)) if _ends(lines, start, at))
    first = start
    while first and lines[first - 1].startswith((" *", "/**")):
        first -= 1
    declaration = lines[start : end + 1]
    declaration[0] = declaration[0].removeprefix("export ")
    return _join_comment(lines[first:start]), declaration


def _declared_name(line: str) -> str | None:
    found = _DECLARATION.match(line)
    return found["name"] if found else None


def _ends(lines: list[str], start: int, at: int) -> bool:
    """Return whether the declaration that starts at `start` ends in line `at`."""
    line = lines[at]
    if line in {"}", "};", ")"} or (line.startswith("}") and line.endswith(";")):
        return True
    opened = re.match(r"export (?:async )?(class|interface|function)", lines[start])
    if at == start and line.endswith("}"):
        return True
    return not opened and line.endswith(";") and (at == start or not line.startswith("  readonly"))


def _without_internals(owner: str, declaration: list[str]) -> Iterator[str]:
    """Yield the lines of a declaration without bodies, private members and internal members."""
    first = declaration[0]
    if first.startswith(("function", "async function")):
        yield from _head_of_function(declaration)
        return
    if not first.startswith("class"):
        yield from declaration
        return
    hidden = _INTERNAL | _INTERNAL_OF.get(owner, set())
    opening = next(at for at, line in enumerate(declaration) if line.endswith("{"))
    yield re.sub(r"\s+(?:implements \w+ )?", " ", " ".join(declaration[: opening + 1]))
    comment: list[str] = []
    at = opening + 1
    while at < len(declaration) - 1:
        line = declaration[at]
        if line.startswith(("  /**", "   *")):
            comment.append(line)
            at += 1
            continue
        if not line.strip() or line.startswith("  //"):
            at += 1
            continue
        rest = range(at, len(declaration))
        end = next(each for each in rest if _member_ends(declaration, at, each))
        member = declaration[at : end + 1]
        found = _MEMBER.match(line)
        if found and not _PRIVATE.match(line) and found["name"] not in hidden:
            if comment or "(" in line:
                yield ""
            yield from comment
            yield from _head_of_member(member)
            if not _has_body(member):
                hidden.add(found["name"])  # the implementation follows its overloads
        comment = []
        at = end + 1
    yield "}"


def _has_body(lines: list[str]) -> bool:
    return lines[-1] == "  }" or lines[0].endswith("}")


def _member_ends(lines: list[str], start: int, at: int) -> bool:
    line = lines[at]
    if at == start:
        return line.endswith((";", "}"))
    return line in {"  }", "  };", "  );"} or (line.startswith("  )") and line.endswith(";"))


def _head_of_member(lines: list[str]) -> list[str]:
    """Return a member without its body or its value."""
    if lines[0].endswith(";"):
        return [re.sub(r" = [^=>]+;$", ";", lines[0])]
    return _until_body(lines, "  ")


def _head_of_function(lines: list[str]) -> list[str]:
    return _until_body(lines, "")


def _until_body(lines: list[str], indent: str) -> list[str]:
    """Return the lines up to the brace that opens the body, which a semicolon replaces."""
    for at, line in enumerate(lines):
        is_last = at == 0 or line.startswith(f"{indent})")
        if is_last and line.endswith((" {", ";")):
            kept = [*lines[:at], f"{line.removesuffix(' {').removesuffix(';')};"]
            return [kept[0].replace("async ", "", 1), *kept[1:]]
    raise ValueError(lines[0])


def _join_comment(lines: list[str]) -> str:
    text = " ".join(re.sub(r"^/?\*+/?|\*/$", "", line.strip()).strip() for line in lines)
    return re.sub(r"\s+", " ", text).strip()


def _resolve(entry: str, file: str) -> str:
    parts: list[str] = list(Path(entry).parent.parts)
    for part in file.split("/"):
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _read(file: str) -> str:
    return (SOURCES / file).read_text(encoding="utf-8")
