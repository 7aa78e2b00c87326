"""The plans of all statements that run inside a call, read from the server's debug output.

EXPLAIN shows the call of a function and nothing inside it. `debug_print_plan` prints the plan tree
of every statement when it is planned, at any depth, and needs no extension; this module parses
those trees.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cluster import Connection
from psycopg.errors import Diagnostic


@dataclass(frozen=True, slots=True)
class Node:
    """`{LABEL :name value … {LABEL …} …}` of a printed tree, with the fields that are needed
    here."""

    label: str
    fields: dict[str, str]
    below: list["Node"]

    @property
    def is_plan(self) -> bool:
        return "plan_rows" in self.fields and self.label != "SUBPLAN"


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a plan, as EXPLAIN would print it; `is_bound`: limited by an index condition."""

    kind: str
    depth: int
    rows: float
    relation: str | None
    index: str | None
    is_bound: bool
    below: tuple["Step", ...]

    def __str__(self) -> str:
        on = f" on {self.relation}" if self.relation else ""
        by = f" using {'' if self.is_bound else 'all of '}{self.index}" if self.index else ""
        head = f"{'  ' * self.depth}{self.kind}{by}{on} (rows={self.rows:g})"
        return "\n".join([head, *map(str, self.below)])

    def walk(self) -> Iterator["Step"]:
        yield self
        for step in self.below:
            yield from step.walk()


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one statement, and the position of the statement."""

    function: str
    statement: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.function}: {self.statement}", *map(str, self.steps)])

    def walk(self) -> Iterator[Step]:
        for step in self.steps:
            yield from step.walk()


def rows_read(conn: Connection) -> int:
    """Return the number of rows and index entries of the schema that this session has read so
    far."""
    [row] = conn.execute(
        """
        select sum(pg_stat_get_xact_tuples_returned(c.oid))::bigint as read from pg_class as c
         where c.relnamespace = 'jobforge'::regnamespace and c.relkind in ('r', 'i')
        """
    ).fetchall()
    read = row["read"]
    assert isinstance(read, int)
    return read


@dataclass(slots=True)
class Recorder:
    """Collects the plans of statements that run on a connection and read one of the given
    tables."""

    conn: Connection
    tables: set[str]
    plans: list[Plan] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def recording(self) -> Iterator[None]:
        # Use the parent's name for a partition and its indexes.
        rows = self.conn.execute(
            "select c.oid::text as oid, coalesce(r.relname, c.relname) as name from pg_class as c "
            "left join pg_class as r on r.oid = pg_partition_root(c.oid)"
        )
        self._names = {row["oid"]: row["name"] for row in rows}
        self.conn.execute("discard plans")
        self.conn.add_notice_handler(self._note)
        # Send the trees to the client and not to the server's log, without indentation.
        self.conn.execute(
            "set client_min_messages = log; set log_min_messages = fatal; "
            "set debug_pretty_print = off; set debug_print_plan = on"
        )
        yield
        self.conn.execute(
            "reset client_min_messages; reset log_min_messages; "
            "reset debug_pretty_print; reset debug_print_plan"
        )
        self.conn.remove_notice_handler(self._note)

    def _note(self, notice: Diagnostic) -> None:
        text = notice.message_detail or ""
        if notice.message_primary != "plan:" or not self._is_wanted(text):
            return
        root = _parse(text)
        context = notice.context or ""
        function = re.search(r"function jobforge\.(\w+)", context)
        statement = " ".join(context.partition('"')[2].partition('"')[0].split())
        relations = [
            self._names.get(entry.fields.get("relid", ""))
            for entry in root.below
            if entry.label in _RELATIONS
        ]
        steps = tuple(self._step(tree, relations, 1) for tree in root.below if tree.is_plan)
        self.plans.append(Plan(function.group(1) if function else "", statement, steps))

    def _is_wanted(self, text: str) -> bool:
        # Parsing a tree takes longer than printing it, and most statements read no table at all.
        mentioned = {self._names.get(oid) for oid in re.findall(r":relid\s+(\d+)", text)}
        return not mentioned.isdisjoint(self.tables)

    def _step(self, node: Node, relations: list[str | None], depth: int) -> Step:
        number = node.fields.get("scanrelid")
        index = node.fields.get("indexid")
        return Step(
            node.label,
            depth,
            float(node.fields["plan_rows"]),
            relations[int(number) - 1] if number else None,
            self._names[index] if index else None,
            node.fields.get("indexqual") == "(",
            tuple(self._step(child, relations, depth + 1) for child in _plan_nodes(node)),
        )


def _plan_nodes(node: Node) -> Iterator[Node]:
    """Return the plan nodes directly below a node, skipping expressions in between."""
    for child in node.below:
        if child.is_plan:
            yield child
        else:
            yield from _plan_nodes(child)


# The label of a relation's entry since Postgres 16, and in earlier versions.
_RELATIONS = {"RANGETBLENTRY", "RTE"}

# Braces form the tree; a backslash escapes the next character. Since Postgres 16 a field is
# prefixed with its struct: `scan.scanrelid`. A list begins with a parenthesis.
_TOKEN = re.compile(
    r"\\.|\{(?P<label>\w+)|(?P<end>\})"
    r"|:(?:\w+\.)*(?P<field>plan_rows|scanrelid|indexid|indexqual|relid)"
    r"\s+(?P<value>\(|[^\s(){}]+)",
    re.DOTALL,
)


def _parse(text: str) -> Node:
    open_nodes = [Node("", {}, [])]
    for token in _TOKEN.finditer(text):
        if token["label"]:
            node = Node(token["label"], {}, [])
            open_nodes[-1].below.append(node)
            open_nodes.append(node)
        elif token["end"]:
            open_nodes.pop()
        elif token["field"]:
            open_nodes[-1].fields[token["field"]] = token["value"]
    [[root]] = [node.below for node in open_nodes]  # all other nodes are closed
    return root
