"""Measurements of a workload: for each figure's name, a list with one value per round.

A figure that depends on a count has a name for each point, such as `rate/s @10000`.
"""

Measurements = dict[str, list[float]]
Points = list[tuple[float, list[float]]]

_AT = " @"


def name_point(figure: str, point: float) -> str:
    return f"{figure}{_AT}{point:g}" if point < 1e5 else f"{figure}{_AT}{point:.0f}"


def list_points(measured: dict[str, dict[str, list[float]]], figure: str, side: str) -> Points:
    """Return the points of a figure that the side has, in ascending order."""
    found = []
    for name, sides in measured.items():
        stem, is_point, point = name.partition(_AT)
        if is_point and stem == figure and side in sides:
            found.append((float(point), sides[side]))
    return sorted(found)


def percentile(values: list[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
