"""Writes docs/python-api.md, the Python API reference, from the signatures and docstrings.

The page has the classes that applications use: the public names of `jobforge`, the classes that
their methods return, and `jobforge.testing`. The script parses the sources and imports nothing.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from python_signatures import (
    format_annotation,
    format_constructor,
    format_fields,
    format_signature,
    list_arguments,
)
from python_sources import (
    PACKAGE,
    ROOT,
    Function,
    exports,
    find_classes,
    find_functions,
    find_methods,
    read_source,
)

PAGE = ROOT / "docs" / "python-api.md"
_HEAD = """\
# Python API

This reference lists the public classes of the package `jobforge` with their methods and attributes.
It is generated from the docstrings. To learn how to use them, start with the guide,
[Python](python.md).

| You want to | See |
|---|---|
| declare jobs | [`JobForge.job`](#jobforgejob) |
| enqueue a job, with options | [`Definition.enqueue`](#definitionenqueue), [`Definition.using`](#definitionusing) |
| wait for a result | [`Handle.result`](#handleresult) |
| report progress, use secrets and steps in a job | [`Context`](#context) |
| combine jobs | [`JobForge.workflow`](#jobforgeworkflow), [`JobForge.batch`](#jobforgebatch) |
| list and change jobs through a server | [`Client`](#client) |
| test jobs | [Testing](#testing) |

Classes that are shown without an import line are returned by methods. Do not instantiate them
yourself.

**Async code:** "Async: `await aenqueue(…)`" at the end of a description names the async form of a method,
which has the same arguments and the same result.

| Type | Meaning |
|---|---|
| `Duration` | number of seconds, or a `timedelta` |
| `Size` | number of bytes, or a string such as `"256MB"` |
| `TenantRef` | UUID or slug of a tenant |
| `Json` | any value that JSON can represent |
| `conn` | connection of psycopg, SQLAlchemy, Django or asyncpg: [supported connections](python.md#in-your-own-transaction) |
| `Isolation` | `"process"` or `"inline"`: [comparison](worker.md#inline-and-isolated-jobs) |
| `CatchUpOption` | `"none"`, `"last"` or `"all"`: [missed runs](schedules.md#missed-runs-catch_up) |
| `OverlapOption` | `"allow"`, `"skip"`, `"queue"` or `"cancel_running"`: [overlapping jobs](schedules.md#overlapping-jobs-overlap) |
| `Dedupe` | duration, or `"active"`: [options](python.md#enqueuing) |
| `OnConflict` | `"existing"`, `"replace"` or `"raise"`: [options](python.md#enqueuing) |
| `OnParentFailure` | `"cancel"`, `"run"` or `"wait"`: [Workflows](workflows.md) |
| `Enqueuer` | definition with options, as `definition.using(…)` returns it. It has the methods `using`, `enqueue`, `enqueue_many`, `args` and `node` of [Definition](#definition) |
| `Args`, `AnyArgs` | arguments of one job, as `definition.args(…)` returns them |
| `Arguments` | dict of the job's arguments by name |
| `Parent` | handle, node, inner workflow, or UUID of a job |
| `TenantScope` | `with` block, as `jf.tenant(…)` returns it |
| `Transaction` | `with` or `async with` block that returns a psycopg connection |
| `Artifacts` | an opened [artifact store](artifacts.md) |
| `NoOpAwaitable` | result of a method for sync and async functions: a sync function ignores it, an async function awaits it |
"""  # noqa: E501 - rows of a table

# Attributes of an app that are decorators, with their classes.
_DECORATORS = (
    ("job", "sdk.decorator", "JobDecorator"),
    ("middleware", "sdk.middleware", "MiddlewareDecorator"),
)

_CALL_NEXT = """\
### CallNext

`from jobforge import CallNext`

Type of the second argument of a [middleware](howto/middleware.md): a function without arguments
that calls the next middleware or the handler. In an async middleware, await what it returns.
"""

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
    type_argument: str = "T"  # in place of T in the methods of a generic base


_ENQUEUER = ("Enqueuer", "sdk.enqueue")
_GROUP_HANDLE = ("GroupHandle", "sdk.job_group")
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
        "has_handler",
        "invoke",
        "is_wrapped_by",
        "needs_context",
        "parameters",
        "parse_arguments_json",
        "registration",
        "result",
        "run_start_hooks",
        "served_versions",
        "start_hooks",
        "update_hooks",
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
            hidden=frozenset(
                {
                    "build_trigger_declaration",
                    "lifecycle",
                    "registrations",
                }
            ),
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
        Documented(
            "WorkflowHandle", "sdk.workflow", (_GROUP_HANDLE,), type_argument="WorkflowDetail"
        ),
        Documented("Batch", "sdk.batch"),
        Documented("BatchHandle", "sdk.batch", (_GROUP_HANDLE,), type_argument="WorkflowInfo"),
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
        Documented("JobForgeTestCase", "testing.unittest_case", hidden=frozenset({"setUp"})),
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


def page() -> str:
    parts = [_HEAD]
    for title, classes in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [_FIXTURES] if title == "Testing" else []
        for documented in classes:
            parts += _class(documented)
        parts += [_CALL_NEXT] if title == "Handlers" else []
        if title == "HTTP client and webhooks":
            parts += _function("verify_webhook", find_functions("security.webhook_signature"))
            parts.append(_ERRORS)
    return "\n".join(parts)


def names() -> set[str]:
    """Return the names that have a heading on the page."""
    return set(re.findall(r"^### ([\w.]+)", page(), re.MULTILINE))


def _class(documented: Documented) -> Iterator[str]:
    own = find_classes(documented.module)[documented.name]
    bodies = [own, *(find_classes(module)[name] for name, module in documented.bases)]
    yield f"### {documented.name}\n"
    for package in ("jobforge", "jobforge.testing"):
        if documented.name in exports(package):
            yield f"`from {package} import {documented.name}`\n"
    yield from _head(documented, bodies)
    if documented.has_fields:
        lines = [line for body in reversed(bodies) for line in _field_lines(documented, body)]
        fields = "\n".join(f"    {line}" for line in lines)
        yield f"```python3\nclass {documented.name}:\n{fields}\n```\n"
    members = _public_members(documented, bodies)
    yield from _attributes(documented.name, members)
    if documented.name == "JobForge":
        for name, module, class_name in _DECORATORS:
            yield from _method("JobForge", name, _decorator(name, module, class_name), {})
    for name, method in members.items():
        if not _is_property(method) and not _is_async_twin(name, members):
            for part in _method(documented.name, name, method, members):
                yield part.replace("-> T\n", f"-> {documented.type_argument}\n")
    if documented.name == "Client":
        yield from _operations()


def _head(documented: Documented, bodies: list[ast.ClassDef]) -> Iterator[str]:
    """Describe the class, with its constructor if users call it."""
    constructor: Function | None = None
    if documented.is_constructed:
        constructors = (find_methods(body).get("__init__") for body in bodies)
        constructor = next((each for each in constructors if each), None)
        call = (
            format_constructor(documented.name, constructor)
            if constructor
            else format_fields(bodies[0])
        )
        yield f"```python3\n{call}\n```\n"
    yield _text(bodies[0])
    if constructor and ast.get_docstring(constructor):
        yield _text(constructor)


def _public_members(documented: Documented, bodies: list[ast.ClassDef]) -> dict[str, Function]:
    members: dict[str, Function] = {}
    for body in reversed(bodies):
        members |= {
            name: method
            for name, method in find_methods(body).items()
            if not name.startswith("_") and name not in documented.hidden
        }
    return members


def _attributes(owner: str, members: dict[str, Function]) -> Iterator[str]:
    rows = dict(_ATTRIBUTES.get(owner, {}))
    for name, method in members.items():
        if _is_property(method):
            rows[name] = (format_annotation(method.returns), " ".join(_text(method).split()))
    if rows:
        yield "| Attribute | Type | Description |\n|---|---|---|"
        for name, (kind, text) in rows.items():
            yield f"| `{name}` | `{_cell(kind)}` | {text} |"
        yield ""


def _method(owner: str, name: str, method: Function, members: dict[str, Function]) -> Iterator[str]:
    yield f"### {owner}.{name}\n"
    yield f"```python3\n{format_signature(name, method)}\n```\n"
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
    yield f"```python3\n{format_signature(name, functions[name])}\n```\n"
    yield _text(functions[name])


def _decorator(name: str, module: str, class_name: str) -> Function:
    """Return the last overload, `@jf.<name>(…)` with settings, and the docstring of its class."""
    decorator = find_classes(module)[class_name]
    overloads = [
        each for each in decorator.body if isinstance(each, ast.FunctionDef) and each.decorator_list
    ]
    found = overloads[-1]
    docstring = decorator.body[:1]
    return ast.FunctionDef(name, found.args, docstring, [], found.returns)


def _operations() -> Iterator[str]:
    """Describe the methods that are calls of the engine, which both clients have."""
    yield "### Engine functions of both clients\n"
    yield (
        "Each of these methods has the name, the arguments and the result of an engine function."
        " [SQL functions](sql.md) describes what each one does.\n"
    )
    shared = find_classes("client.client")["ClientOperations"]
    calls = {
        name: function
        for path in sorted((PACKAGE / "calls").glob("*.py"))
        for name, function in find_functions(f"calls.{path.stem}").items()
    }
    calls |= find_functions("security.api_keys") | find_functions("client.http_only_requests")
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
    shown = [re.sub(r": .*?(?= = |$)", "", each) for each in list_arguments(function)]
    shown = [each.replace(" = ", "=") for each in shown]
    result = re.sub(r"^(?:Call|ApiRequest)\[(.*)\]$", r"\1", format_annotation(function.returns))
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


def _field_lines(documented: Documented, body: ast.ClassDef) -> Iterator[str]:
    """Yield the source of each field with its comment."""
    lines = read_source(documented.module).splitlines()
    for each in body.body:
        if isinstance(each, ast.AnnAssign | ast.Assign):
            text = lines[each.lineno - 1].strip()
            yield re.sub(r" = field\(default_factory=list\)$", "", text)
