"""What a workload measured: figures by name, each a list, one value a round.

A figure that grows over something has a name for each point, `rate/s @10000`.
"""

Measurements = dict[str, list[float]]
Points = list[tuple[float, list[float]]]

_AT = " @"


def name_point(figure: str, point: float) -> str:
    return f"{figure}{_AT}{point:g}" if point < 1e5 else f"{figure}{_AT}{point:.0f}"


def list_points(measured: dict[str, dict[str, list[float]]], figure: str, side: str) -> Points:
    """The points of a figure, in their order, as far as the side has them."""
    found = []
    for name, sides in measured.items():
        stem, is_point, place = name.partition(_AT)
        if is_point and stem == figure and side in sides:
            found.append((float(place), sides[side]))
    return sorted(found)


def percentile(values: list[float], share: float) -> float:
    """The smallest value that so large a share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
