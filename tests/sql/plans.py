"""The plans of all statements that run inside a call, read from what the server prints of them.

EXPLAIN shows the call of a function and nothing inside. `debug_print_plan` prints the plan tree of
every statement when it is planned, however deep, and needs no extension; this reads those trees.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from cluster import Connection
from psycopg.errors import Diagnostic

# What a printed tree is made of.
Tree: TypeAlias = "Node | list[Tree] | str"


@dataclass(frozen=True, slots=True)
class Node:
    """`{LABEL :name value …}` of a printed tree."""

    label: str
    fields: dict[str, list[Tree]]

    def text(self, name: str) -> str | None:
        """A field of one word. Since Postgres 16 its struct stands before it: `scan.scanrelid`."""
        for key, value in self.fields.items():
            if key.rpartition(".")[2] == name and value and isinstance(value[0], str):
                return value[0]
        return None

    def has(self, name: str) -> bool:
        return any(isinstance(value, list) for value in self.fields.get(name, []))

    def children(self) -> Iterator["Node"]:
        for value in self.fields.values():
            yield from _nodes(value)


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a plan, as EXPLAIN would print it; `is_bound` by an index condition."""

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
    """The plan of one statement, and where the statement stands."""

    function: str
    statement: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.function}: {self.statement}", *map(str, self.steps)])

    def walk(self) -> Iterator[Step]:
        for step in self.steps:
            yield from step.walk()


def rows_read(conn: Connection) -> int:
    """How many rows and index entries of the schema this session has read so far."""
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
    """Collects the plans of what runs on a connection and touches one of some tables."""

    conn: Connection
    tables: set[str]
    plans: list[Plan] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def recording(self) -> Iterator[None]:
        # A partition and its indexes go by the names of what they are part of.
        rows = self.conn.execute(
            "select c.oid::text as oid, coalesce(r.relname, c.relname) as name from pg_class as c "
            "left join pg_class as r on r.oid = pg_partition_root(c.oid)"
        )
        self._names = {row["oid"]: row["name"] for row in rows}
        self.conn.execute("discard plans")
        self.conn.add_notice_handler(self._note)
        self.conn.execute("set client_min_messages = log; set debug_print_plan = on")
        yield
        self.conn.execute("reset client_min_messages; reset debug_print_plan")
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
            self._names.get(entry.text("relid") or "") for entry in _nodes(root.fields["rtable"])
        ]
        trees = [*_nodes(root.fields["planTree"]), *_nodes(root.fields["subplans"])]
        steps = tuple(self._step(tree, relations, 1) for tree in trees)
        self.plans.append(Plan(function.group(1) if function else "", statement, steps))

    def _is_wanted(self, text: str) -> bool:
        # Reading a tree takes longer than printing it, and most touch no table at all.
        mentioned = {self._names.get(oid) for oid in re.findall(r":relid\s+(\d+)", text)}
        return not mentioned.isdisjoint(self.tables)

    def _step(self, node: Node, relations: list[str | None], depth: int) -> Step:
        number = node.text("scanrelid")
        index = node.text("indexid")
        return Step(
            node.label,
            depth,
            float(node.text("plan_rows") or 0),
            relations[int(number) - 1] if number else None,
            self._names[index] if index else None,
            node.has("indexqual"),
            tuple(self._step(child, relations, depth + 1) for child in _plan_nodes(node)),
        )


def _plan_nodes(node: Node) -> Iterator[Node]:
    """The plan nodes right below one: expressions in between are passed over."""
    for child in node.children():
        if child.text("plan_rows") is not None and child.label != "SUBPLAN":
            yield child
        else:
            yield from _plan_nodes(child)


def _nodes(tree: Tree) -> Iterator[Node]:
    if isinstance(tree, Node):
        yield tree
    elif isinstance(tree, list):
        for item in tree:
            yield from _nodes(item)


_TOKEN = re.compile(r"[(){}]|(?:\\.|[^\s(){}\\])+", re.DOTALL)


def _parse(text: str) -> Node:
    tokens = iter(_TOKEN.findall(text))
    root = _read(next(tokens), tokens)
    assert isinstance(root, Node)
    return root


def _read(token: str, tokens: Iterator[str]) -> Tree:
    if token == "(":
        return [_read(inner, tokens) for inner in iter(lambda: next(tokens), ")")]
    if token != "{":
        return token
    node = Node(next(tokens), {})
    values: list[Tree] = []
    for inner in tokens:
        if inner == "}":
            return node
        if inner.startswith(":"):
            values = node.fields[inner[1:]] = []
        else:
            values.append(_read(inner, tokens))
    raise AssertionError("a printed plan ends in the middle")
