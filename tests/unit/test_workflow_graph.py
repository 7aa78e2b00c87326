"""The graph of a workflow in the terminal."""

from jobforge.cli.workflow_graph import draw


def drawn(states: dict[str, str], *edges: tuple[str, str]) -> list[str]:
    return [f"{line.signs} {line.label}".rstrip() for line in draw(states, edges)]


def test_a_diamond_splits_and_joins() -> None:
    states = {"a": "succeeded", "b": "running", "c": "dead", "d": "blocked"}
    edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    assert drawn(states, *edges) == ["● a", "├─╮", "◐ │ b", "│ ✗ c", "├─╯", "◌ d"]


def test_lines_pass_by_each_other() -> None:
    states = dict.fromkeys(["a", "b", "x", "c"], "queued")
    assert drawn(states, ("a", "c"), ("b", "x")) == ["○ a", "│ ○ b", "│ ○ x", "○ c"]


def test_many_equal_nodes_share_a_line() -> None:
    parts = [f"p{n}" for n in range(9)]
    states = {"a": "succeeded", **dict.fromkeys(parts, "succeeded"), "z": "queued"}
    edges = [("a", part) for part in parts] + [(part, "z") for part in parts]
    assert drawn(states, *edges) == ["● a", "● p0 … p8 (9)", "○ z"]


def test_parents_are_drawn_before_their_children_in_any_order() -> None:
    states = {"late": "blocked", "early": "queued"}
    assert drawn(states, ("early", "late")) == ["○ early", "◌ late"]
