"""Writes docs/python-api.md, the Python API reference, from the signatures and docstrings.

The page has the classes that applications use: the public names of `jobforge`, the classes that
their methods return, and `jobforge.testing`. The script parses the sources and imports nothing.
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jobforge"
PAGE = ROOT / "docs" / "python-api.md"
_WIDTH = 88

_HEAD = """\
# Python API

This page is generated from the docstrings. It lists the public classes of the package `jobforge` with
their methods and attributes. [Python](python.md) is the guide. Classes that are shown without an
import line are returned by methods. Do not instantiate them yourself.

**Async code:** "Async: `await aenqueue(…)`" at the end of a description names the async form of a method,
which has the same arguments and the same result.

**Defaults:** `...` in a signature means that you can omit the argument. The tables of
[job](#jobforgejob) and [using](#definitionusing) describe these arguments.

| Type | Meaning |
|---|---|
| `Duration` | number of seconds, or a `timedelta` |
| `Size` | number of bytes, or a string such as `"256MB"` |
| `TenantRef` | UUID or slug of a tenant |
| `Json` | any value that JSON can represent |
| `conn` | connection of psycopg, SQLAlchemy, Django or asyncpg: [supported connections](python.md#in-your-own-transaction) |
| `Isolation` | `"process"` or `"inline"`: [Isolation](isolation.md) |
| `CatchUpOption` | `"none"`, `"last"` or `"all"`: [missed runs](schedules.md#missed-runs-catch_up) |
| `OverlapOption` | `"allow"`, `"skip"`, `"queue"` or `"cancel_running"`: [overlapping jobs](schedules.md#overlapping-jobs-overlap) |
| `Dedupe` | duration, or `"active"`: [options](python.md#enqueuing) |
| `OnConflict` | `"existing"`, `"replace"` or `"raise"`: [options](python.md#enqueuing) |
| `OnParentFailure` | `"cancel"`, `"run"` or `"wait"`: [Workflows](workflows.md) |
| `Enqueuer` | definition with options, as `definition.using(…)` returns it. It has the methods `using`, `enqueue`, `enqueue_many`, `args` and `node` of [Definition](#definition) |
| `Args`, `AnyArgs` | arguments of one job, as `definition.args(…)` returns them |
| `Arguments` | dict of the handler's arguments by name |
| `Parent` | handle, node, inner workflow, or UUID of a job |
| `TenantScope` | `with` block, as `jf.tenant(…)` returns it |
| `Transaction` | `with` or `async with` block that returns a psycopg connection |
| `Artifacts` | an opened [artifact store](artifacts.md) |
| `NoOpAwaitable` | result of a method for sync and async handlers: a sync handler ignores it, an async handler awaits it |
"""  # noqa: E501 - rows of a table

_ERRORS = """\
### errors

`jobforge.errors` has the exceptions of the API. All are subclasses of `JobForgeError`, which has
`code`, `message`, `field` (the invalid argument), `detail` and `hint`. [Error codes](errors.md)
lists all classes.
"""

_FIXTURES = """\
The pytest plugin is installed with JobForge. [Testing](testing.md) describes its settings
`jobforge_app` and `jobforge_tenants`.

| Fixture | Type | Description |
|---|---|---|
| `jf_test` | `Kit` | JobForge on a separate database for this test |
| `jobforge_postgres` | `Postgres` | Server of the test databases; override it to use another |
"""


@dataclass(frozen=True, slots=True)
class Documented:
    """A class on the page: its module, the base classes to include, and names to leave out."""

    name: str
    module: str
    bases: tuple[tuple[str, str], ...] = ()
    is_constructed: bool = False  # whether users call its constructor
    hidden: frozenset[str] = frozenset()
    has_fields: bool = False  # whether its fields are part of the API


_ENQUEUER = ("Enqueuer", "sdk.enqueue")
# Members for workers, which are not part of the API.
_OF_WORKERS = frozenset(
    {
        "add_to_nodes",
        "build_handle",
        "build_requests",
        "can_create_artifacts",
        "dump",
        "fake_claimed_job",
        "has_artifacts_in_payload",
        "invoke",
        "needs_context",
        "parameters",
        "parse_arguments_json",
        "registration",
        "result",
        "run_start_hooks",
        "served_versions",
        "start_hooks",
        "update_hooks_setting",
    }
)
_OF_CONTEXT = frozenset(
    {
        "has_seen_stop_request",
        "is_stop_requested",
        "payload_json",
        "request_stop",
        "was_completed",
        "with_job_fields",
    }
)

SECTIONS: dict[str, tuple[Documented, ...]] = {
    "App and definitions": (
        Documented(
            "JobForge",
            "sdk.app",
            is_constructed=True,
            hidden=frozenset({"build_schedule_declaration", "registrations"}),
        ),
        Documented("Definition", "sdk.definition", (_ENQUEUER,), hidden=_OF_WORKERS),
        Documented("Rate", "sdk.definition_settings", is_constructed=True),
        Documented("Retry", "sdk.outcome_exceptions", is_constructed=True),
    ),
    "Handles": (
        Documented("Handle", "sdk.handle", hidden=frozenset({"read_result"})),
        Documented("Job", "types.jobs", (("JobListing", "types.jobs"),), has_fields=True),
        Documented("State", "types.jobs", has_fields=True),
    ),
    "Workflows and batches": (
        Documented("Workflow", "sdk.workflow"),
        Documented("Node", "sdk.workflow_nodes", hidden=frozenset({"set_handle"})),
        Documented("WorkflowHandle", "sdk.workflow"),
        Documented("Batch", "sdk.batch"),
        Documented("BatchHandle", "sdk.batch"),
        Documented("WorkflowDetail", "types.workflows", has_fields=True),
        Documented("WorkflowInfo", "types.workflows", has_fields=True),
        Documented("NodeInfo", "types.workflows", has_fields=True),
    ),
    "Handlers": (
        Documented(
            "Context", "sdk.context", (("DurableContext", "sdk.durable"),), hidden=_OF_CONTEXT
        ),
        Documented("Log", "sdk.context"),
        Documented("Parents", "sdk.parents"),
        Documented("ParentJob", "types.workflows", has_fields=True),
        Documented("OwnWorkflow", "sdk.parents"),
        Documented("ReceivedEvent", "sdk.step_log", has_fields=True),
        Documented("Snooze", "sdk.outcome_exceptions", is_constructed=True),
        Documented("Cancel", "sdk.outcome_exceptions", is_constructed=True),
        Documented("Dead", "sdk.outcome_exceptions", is_constructed=True),
        Documented("Cancelled", "sdk.outcome_exceptions"),
    ),
    "HTTP client and webhooks": (
        Documented(
            "Client", "client.client", (("ClientOperations", "client.client"),), is_constructed=True
        ),
        Documented("AsyncClient", "client.client"),
        Documented("StreamEvent", "client.stream", has_fields=True),
        Documented(
            "JobRequest",
            "types.jobs",
            hidden=frozenset({"can_batch", "options", "to_json", "with_payload"}),
            has_fields=True,
        ),
        Documented("JobFilter", "types.jobs", hidden=frozenset({"to_json"}), has_fields=True),
        Documented("Enqueued", "types.jobs", has_fields=True),
        Documented("JobHistory", "types.job_history", has_fields=True),
        Documented("Explanation", "types.job_history", has_fields=True),
        Documented("Outcome", "types.jobs", has_fields=True),
        Documented("OutcomeReport", "types.jobs", hidden=frozenset({"to_json"}), has_fields=True),
    ),
    "Testing": (
        Documented("Kit", "testing.kit", hidden=frozenset({"close"})),
        Documented("Drained", "testing.drain", has_fields=True),
        Documented("Ran", "testing.drain", has_fields=True),
        Documented("EnqueuedJob", "testing.database", has_fields=True),
        Documented("Notes", "testing.notes", hidden=frozenset({"add"}), has_fields=True),
    ),
}

# Attributes that constructors set.
_ATTRIBUTES = {
    "Handle": {
        "id": ("UUID", "ID of the job."),
        "tenant_id": ("UUID", "Tenant of the job."),
        "status": ("EnqueueStatus", "`created`, `existing` or `replaced`."),
    },
    "WorkflowHandle": {
        "id": ("UUID", "ID of the workflow."),
        "tenant_id": ("UUID", "Tenant of the workflow."),
    },
    "BatchHandle": {
        "id": ("UUID", "ID of the batch."),
        "tenant_id": ("UUID", "Tenant of the batch."),
    },
    "Node": {"name": ("str", "Name of the node in its workflow.")},
}

# Tables of the guide that describe the parameters of a method, by the beginning of their header.
_GUIDE = ROOT / "docs" / "python.md"
_PARAMETERS = {
    "JobForge.job": "| Setting | Default |",
    "Definition.using": "| Option | Description |",
}
# Headings of the client's methods, and the words in their names. The first match counts.
_CALL_GROUPS = {
    "Statistics and audit log": "statistics|meter|audit",
    "Workflows and batches": "workflow|batch",
    "Events": "event",
    "Triggers": "trigger|firings",
    "Webhooks": "webhook|deliver",
    "Failure groups": "failure",
    "Operations": "operation|count_jobs",
    "Definitions": "definition",
    "Queues": "queue$|queues|holders",
    "Workers": "worker",
    "Tenants": "tenant",
    "API keys": "key|whoami",
    "Jobs": "",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} written")
    return 0


def page() -> str:
    parts = [_HEAD]
    for title, classes in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_FIXTURES] if title == "Testing" else []
        for documented in classes:
            parts += _class(documented)
        if title == "HTTP client and webhooks":
            parts += _function("verify_webhook", _functions("security.webhook_signature"))
            parts.append(_ERRORS)
    return "\n".join(parts)


def names() -> set[str]:
    """Return the names that have a heading on the page."""
    return set(re.findall(r"^### ([\w.]+)", page(), re.MULTILINE))


def _class(documented: Documented) -> Iterator[str]:
    own = _classes(documented.module)[documented.name]
    bodies = [own, *(_classes(module)[name] for name, module in documented.bases)]
    yield f"### {documented.name}\n"
    for package in ("jobforge", "jobforge.testing"):
        if documented.name in _exports(package):
            yield f"`from {package} import {documented.name}`\n"
    yield from _head(documented, bodies)
    if documented.has_fields:
        lines = [line for body in reversed(bodies) for line in _field_lines(documented, body)]
        yield "```python3\n{}\n```\n".format("\n".join(lines))
    members = _public_members(documented, bodies)
    yield from _attributes(documented.name, members)
    if documented.name == "JobForge":
        yield from _method("JobForge", "job", _job_decorator(), {})
    for name, method in members.items():
        if not _is_property(method) and not _is_async_twin(name, members):
            yield from _method(documented.name, name, method, members)
    if documented.name == "Client":
        yield from _operations()


def _head(documented: Documented, bodies: list[ast.ClassDef]) -> Iterator[str]:
    """Describe the class, with its constructor if users call it."""
    constructor: Function | None = None
    if documented.is_constructed:
        constructors = (_methods(body).get("__init__") for body in bodies)
        constructor = next((each for each in constructors if each), None)
        call = _call(documented.name, constructor) if constructor else _fields_call(bodies[0])
        yield f"```python3\n{call}\n```\n"
    yield _text(bodies[0])
    if constructor and ast.get_docstring(constructor):
        yield _text(constructor)


def _public_members(documented: Documented, bodies: list[ast.ClassDef]) -> dict[str, Function]:
    members: dict[str, Function] = {}
    for body in reversed(bodies):
        members |= {
            name: method
            for name, method in _methods(body).items()
            if not name.startswith("_") and name not in documented.hidden
        }
    return members


def _attributes(owner: str, members: dict[str, Function]) -> Iterator[str]:
    rows = dict(_ATTRIBUTES.get(owner, {}))
    for name, method in members.items():
        if _is_property(method):
            rows[name] = (_annotation(method.returns), " ".join(_text(method).split()))
    if rows:
        yield "| Attribute | Type | Description |\n|---|---|---|"
        for name, (kind, text) in rows.items():
            yield f"| `{name}` | `{_cell(kind)}` | {text} |"
        yield ""


def _method(owner: str, name: str, method: Function, members: dict[str, Function]) -> Iterator[str]:
    yield f"### {owner}.{name}\n"
    yield f"```python3\n{_signature(name, method)}\n```\n"
    text = _text(method).rstrip("\n")
    twin = _twin(name, members)
    yield f"{text} Async: `await {twin}(…)`.\n" if twin else f"{text}\n"
    if f"{owner}.{name}" in _PARAMETERS:
        yield _guide_table(_PARAMETERS[f"{owner}.{name}"])


def _guide_table(header: str) -> str:
    """Return the guide's tables with this header as one, with links that work on this page."""
    blocks = _GUIDE.read_text(encoding="utf-8").split("\n\n")
    first, *others = (block.splitlines() for block in blocks if block.startswith(header))
    lines = [*first, *(line for table in others for line in table[2:])]
    return "\n".join(lines).replace("](#", f"]({_GUIDE.name}#") + "\n"


def _function(name: str, functions: dict[str, Function]) -> Iterator[str]:
    yield f"### {name}\n\n`from jobforge import {name}`\n"
    yield f"```python3\n{_signature(name, functions[name])}\n```\n"
    yield _text(functions[name])


def _job_decorator() -> Function:
    """Return the overload of `@jf.job(…)` with the settings, and the docstring of its class."""
    decorator = _classes("sdk.decorator")["JobDecorator"]
    overloads = [each for each in decorator.body if isinstance(each, ast.FunctionDef)]
    (found,) = [each for each in overloads if _keywords(each)]
    docstring = decorator.body[:1]
    return ast.FunctionDef("job", found.args, docstring, [], found.returns)


def _operations() -> Iterator[str]:
    """Describe the methods that are calls of the engine, which both clients have."""
    yield "### Engine functions of both clients\n"
    yield (
        "Each of these methods has the name, the arguments and the result of an engine function."
        " [SQL functions](sql.md) describes what each one does.\n"
    )
    shared = _classes("client.client")["ClientOperations"]
    calls = {
        name: function
        for path in sorted((PACKAGE / "calls").glob("*.py"))
        for name, function in _functions(f"calls.{path.stem}").items()
    }
    calls |= _functions("client.http_only_requests")
    rows: dict[str, list[str]] = {}
    for statement in shared.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
            name = ast.unparse(statement.targets[0])
            rows.setdefault(_call_group(name), []).append(_operation(name, calls[name]))
    for group, lines in rows.items():
        yield f"#### {group}\n"
        yield "| Method | Returns | Description |\n|---|---|---|"
        yield from lines
        yield ""


def _call_group(name: str) -> str:
    return next(group for group, words in _CALL_GROUPS.items() if re.search(words, name))


def _operation(name: str, function: Function) -> str:
    shown = [re.sub(r": .*?(?= = |$)", "", each) for each in _arguments(function)]
    shown = [each.replace(" = ", "=") for each in shown]
    result = re.sub(r"^(?:Call|ApiRequest)\[(.*)\]$", r"\1", _annotation(function.returns))
    text = _text(function).partition("\n\n")[0].strip()
    return f"| `{name}({', '.join(shown)})` | `{_cell(result)}` | {text} |"


def _twin(name: str, members: dict[str, Function]) -> str | None:
    twin = {"wait": "await_"}.get(name, f"a{name}")
    return twin if twin in members and not _is_property(members[twin]) else None


def _is_async_twin(name: str, members: dict[str, Function]) -> bool:
    return name != "astep" and any(_twin(other, members) == name for other in members)


def _is_property(method: Function) -> bool:
    return any("property" in ast.unparse(each) for each in method.decorator_list)


def _text(node: ast.ClassDef | Function) -> str:
    """Return the docstring as Markdown, with the title of each page that it names as a link."""
    text = ast.get_docstring(node)
    if text is None:
        raise ValueError(f"{node.name} in line {node.lineno} needs a docstring for {PAGE.name}")
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
    text = re.sub(r"docs/([\w-]+)\.md(#[\w-]+)?", _link, text)
    return f"{text}\n"


def _link(found: re.Match[str]) -> str:
    first_line = (PAGE.parent / f"{found[1]}.md").read_text(encoding="utf-8").partition("\n")[0]
    return f"[{first_line.removeprefix('# ')}]({found[1]}.md{found[2] or ''})"


def _cell(text: str) -> str:
    """Return the text for a cell of a table."""
    return text.replace("|", "\\|")


def _call(name: str, constructor: Function) -> str:
    return _wrap(name, _arguments(constructor), "")


def _signature(name: str, function: Function) -> str:
    prefix = "async " if isinstance(function, ast.AsyncFunctionDef) else ""
    return _wrap(f"{prefix}{name}", _arguments(function), f" -> {_annotation(function.returns)}")


def _wrap(name: str, arguments: list[str], end: str) -> str:
    line = f"{name}({', '.join(arguments)}){end}"
    if len(line) <= _WIDTH:
        return line
    inner = "".join(f"    {argument},\n" for argument in arguments)
    return f"{name}(\n{inner}){end}"


def _arguments(function: Function) -> list[str]:
    """Return the parameters as text, without `self`."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    shown = []
    for index, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        shown.append(_argument(argument, default))
        is_last = index == len(given.posonlyargs) - 1
        if is_last and argument.arg != "self":
            shown.append("/")
    keywords = _keywords(function)
    if given.vararg:
        shown.append(f"*{_argument(given.vararg, None)}")
    elif given.kwonlyargs or keywords:
        shown.append("*")
    shown += map(_argument, given.kwonlyargs, given.kw_defaults)
    if keywords:
        shown += [f"{each} = ..." for each in keywords]
    elif given.kwarg:
        shown.append(f"**{_argument(given.kwarg, None)}")
    return [each for each in shown if each not in {"self", "cls"}]


def _keywords(function: Function) -> list[str]:
    """Return the members of the TypedDict in `**options: Unpack[…]`, inherited ones first."""
    keywords = function.args.kwarg
    annotation = _annotation(keywords.annotation) if keywords else ""
    found = re.fullmatch(r"Unpack\[(\w+)\]", annotation)
    return _members(found[1]) if found else []


def _members(typed_dict: str) -> list[str]:
    classes = _classes("sdk.definition_settings") | _classes("sdk.enqueue_options")
    if typed_dict not in classes:  # TypedDict itself
        return []
    body = classes[typed_dict]
    inherited = [each for base in body.bases for each in _members(ast.unparse(base))]
    fields = [each for each in body.body if isinstance(each, ast.AnnAssign)]
    return [*inherited, *(ast.unparse(each) for each in fields)]


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    kind = f": {_annotation(argument.annotation)}" if argument.annotation else ""
    if default is None:
        return f"{argument.arg}{kind}"
    value = _constants().get(ast.unparse(default), ast.unparse(default)).replace("'", '"')
    return f"{argument.arg}{kind}{' = ' if kind else '='}{value}"


@cache
def _constants() -> dict[str, str]:
    """Return the values of constants that are defaults of parameters."""
    modules = ["sdk.outcome_exceptions"]
    modules += [f"calls.{path.stem}" for path in (PACKAGE / "calls").glob("*.py")]
    return {
        ast.unparse(each.targets[0]): ast.unparse(each.value)
        for module in modules
        for each in _tree(module).body
        if isinstance(each, ast.Assign)
    }


def _annotation(annotation: ast.expr | None) -> str:
    """Return the annotation as text, with forward references out of their quotes."""
    if annotation is None:
        return "None"
    return re.sub(r"'([A-Z][\w.\[\], |]*)'", r"\1", ast.unparse(annotation)).replace("'", '"')


def _fields_call(body: ast.ClassDef) -> str:
    """Return the constructor of a dataclass."""
    fields = [each for each in body.body if isinstance(each, ast.AnnAssign)]
    return _wrap(body.name, [ast.unparse(each) for each in fields], "")


def _field_lines(documented: Documented, body: ast.ClassDef) -> Iterator[str]:
    """Yield the source of each field with its comment."""
    lines = _source(documented.module).splitlines()
    for each in body.body:
        if isinstance(each, ast.AnnAssign | ast.Assign):
            text = lines[each.lineno - 1].strip()
            yield re.sub(r" = field\(default_factory=list\)$", "", text)


def _methods(body: ast.ClassDef) -> dict[str, Function]:
    """Return the methods by name; of overloads, the implementation."""
    return {each.name: each for each in body.body if isinstance(each, Function)}


@cache
def _exports(package: str) -> set[str]:
    """Return `__all__` of a package."""
    path = ROOT.joinpath(*package.split("."), "__init__.py")
    for each in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__":
            return set(ast.literal_eval(each.value))
    raise ValueError(path)


@cache
def _source(module: str) -> str:
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_source(module))


def _classes(module: str) -> dict[str, ast.ClassDef]:
    return {each.name: each for each in _tree(module).body if isinstance(each, ast.ClassDef)}


def _functions(module: str) -> dict[str, Function]:
    return {each.name: each for each in _tree(module).body if isinstance(each, Function)}


if __name__ == "__main__":
    sys.exit(main())
