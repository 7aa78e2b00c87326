"""Draw a workflow's graph as text: one row per node, one lane per pending child.

    ● extract
    ├─╮
    ● │ clean
    │ ◐ check
    ├─╯
    ◌ load

Each child has one lane, which all its parents lead into. More than five nodes with the same
parents and the same children share a row. Pure: the caller prints the rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_MOST_ALIKE = 5
_SIGNS = {
    "succeeded": "●",
    "running": "◐",
    "canceling": "◐",
    "queued": "○",
    "scheduled": "○",
    "blocked": "◌",
    "canceled": "⊘",
    "dead": "✗",
}
# Keys: the directions in which a cell connects (up, down, left, right).
_JOINTS = {
    "ud": "│",
    "lr": "─",
    "udlr": "┼",
    "udr": "├",
    "udl": "┤",
    "ulr": "┴",
    "dlr": "┬",
    "ur": "╰",
    "ul": "╯",
    "dr": "╭",
    "dl": "╮",
    "u": "│",
    "d": "│",
    "": " ",
}

Edges = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class GraphRow:
    """A row of the drawing. `signs` are the lanes; a row without a label only joins lanes."""

    signs: str
    label: str = ""
    states: tuple[str, ...] = ()


def draw(states: Mapping[str, str], edges: Edges) -> list[GraphRow]:
    """Return the rows for the nodes, given as name and state, and their (parent, child) edges."""
    groups = _group_alike(states, edges)
    home = {name: group for group, names in groups.items() for name in names}
    children: dict[str, list[str]] = {group: [] for group in groups}
    parents: dict[str, set[str]] = {group: set() for group in groups}
    for parent, child in edges:
        if home[child] not in children[home[parent]]:
            children[home[parent]].append(home[child])
            parents[home[child]].add(home[parent])
    lanes = _Lanes()
    lines: list[GraphRow] = []
    for group in _order_groups(groups, parents):
        names = groups[group]
        found = tuple(states[name] for name in names)
        lines += lanes.draw_node(group, _group_label(names), found, children[group])
    return lines


@dataclass
class _Lanes:
    """The lanes: for each column the node that it leads to, or None if it is free."""

    columns: list[str | None] = field(default_factory=list)

    def draw_node(
        self, name: str, label: str, states: tuple[str, ...], children: Sequence[str]
    ) -> Iterator[GraphRow]:
        own = self._column(name)
        cells = ["│" if lane is not None else " " for lane in self.columns]
        cells[own] = _state_sign(states)
        yield GraphRow(" ".join(cells).rstrip(), label, states)
        before = list(self.columns)
        self.columns[own] = None
        targets = {self._column(child) for child in children}
        if targets and targets != {own}:
            yield GraphRow(self._draw_joints(own, targets, before))
        while self.columns and self.columns[-1] is None:
            self.columns.pop()

    def _column(self, name: str) -> int:
        """Return the node's column; assign the first free column if it has none."""
        if name in self.columns:
            return self.columns.index(name)
        if None in self.columns:
            free = self.columns.index(None)
            self.columns[free] = name
            return free
        self.columns.append(name)
        return len(self.columns) - 1

    def _draw_joints(self, own: int, targets: set[int], before: list[str | None]) -> str:
        first, last = min(own, *targets), max(own, *targets)
        cells = []
        for column, lane in enumerate(self.columns):
            was_there = column < len(before) and before[column] is not None
            ways = "u" if was_there else ""
            ways += "d" if lane is not None else ""
            ways += "l" if first < column <= last else ""
            ways += "r" if first <= column < last else ""
            cells.append(_JOINTS[ways] + ("─" if first <= column < last else " "))
        return "".join(cells).rstrip()


def _group_alike(states: Mapping[str, str], edges: Edges) -> dict[str, list[str]]:
    """Return groups of names by their first name.

    More than `_MOST_ALIKE` nodes with equal parents and children form a group; every other node
    is a group by itself.
    """
    after: dict[str, set[str]] = {name: set() for name in states}
    before: dict[str, set[str]] = {name: set() for name in states}
    for parent, child in edges:
        after[parent].add(child)
        before[child].add(parent)
    kinds: dict[tuple[frozenset[str], frozenset[str]], list[str]] = {}
    for name in states:
        kinds.setdefault((frozenset(before[name]), frozenset(after[name])), []).append(name)
    groups: dict[str, list[str]] = {}
    for names in kinds.values():
        if len(names) > _MOST_ALIKE and (before[names[0]] or after[names[0]]):
            groups[names[0]] = names
        else:
            groups |= {name: [name] for name in names}
    return groups


def _order_groups(groups: Iterable[str], parents: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield groups in topological order; otherwise in their given order."""
    left, drawn = list(groups), set[str]()
    while left:
        ready = next((name for name in left if parents[name] <= drawn), left[0])
        left.remove(ready)
        drawn.add(ready)
        yield ready


def _state_sign(states: tuple[str, ...]) -> str:
    if len(states) == 1:
        return _SIGNS.get(states[0], "?")
    return _SIGNS.get(states[0], "?") if len(set(states)) == 1 else "◍"


def _group_label(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"
