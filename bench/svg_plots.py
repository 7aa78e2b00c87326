"""Plots as SVG text: bar charts, and line charts over a growing count."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

_WIDTH, _LEFT, _RIGHT, _TOP = 760, 120, 130, 44
_ROW, _HEIGHT, _BOTTOM = 26, 330, 44
_COLORS = ("#1f6feb", "#d29922", "#8250df", "#2da44e", "#cf222e", "#57606a", "#0aa2c0", "#bc4c00")
_GREY = "#8c959f"
_MAX_TICKS = 6


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: the median, and the smallest and largest value measured."""

    name: str
    value: float
    low: float
    high: float
    is_jobforge: bool = False


def draw_bars(title: str, rows: Sequence[Bar]) -> str:
    """Draw a bar chart with the rows in the given order."""
    highest = max((row.high for row in rows), default=1) or 1
    wide = _WIDTH - _LEFT - _RIGHT
    parts = []
    for number, row in enumerate(rows):
        middle = _TOP + number * _ROW + _ROW / 2
        value, low, high = (each / highest * wide for each in (row.value, row.low, row.high))
        parts += [
            _text(_LEFT - 8, middle + 4, row.name, anchor="end"),
            _rect((_LEFT, middle - 9), (value, 18), _COLORS[0] if row.is_jobforge else _GREY),
            _line((_LEFT + low, middle), (_LEFT + high, middle)),
            _text(_LEFT + high + 6, middle + 4, format_tick(row.value)),
        ]
    return _svg(title, _TOP + len(rows) * _ROW + 12, parts)


def draw_lines(
    title: str, axis_label: str, series: Mapping[str, Sequence[Point]], *, log: bool = True
) -> str:
    """Draw one line per name; the horizontal axis is logarithmic unless `log` is False."""
    xs = sorted({x for points in series.values() for x, _ in points})
    highest = max((y for points in series.values() for _, y in points), default=1) or 1
    horizontal = _scale(xs, log=log)
    steps = _steps(highest)

    def place(x: float, y: float) -> Point:
        high = _HEIGHT - _TOP - _BOTTOM
        wide = _WIDTH - _LEFT - _RIGHT
        return _LEFT + horizontal[x] * wide, _HEIGHT - _BOTTOM - y / steps[-1] * high

    parts = []
    for step in steps:
        _, y = place(xs[0], step)
        parts += [
            _line((_LEFT, y), (_WIDTH - _RIGHT, y), "#d0d7de"),
            _text(_LEFT - 8, y + 4, format_tick(step), anchor="end"),
        ]
    for x in xs if len(xs) <= 2 * _MAX_TICKS else xs[:: math.ceil(len(xs) / _MAX_TICKS)]:
        parts.append(_text(place(x, 0)[0], _HEIGHT - _BOTTOM + 18, format_tick(x), anchor="middle"))
    parts.append(_text(_LEFT, _HEIGHT - 6, axis_label))
    parts += _curves(series, place)
    return _svg(title, _HEIGHT, parts)


def format_tick(value: float) -> str:
    if value >= 1e6 and value % 1e5 == 0:
        return f"{value / 1e6:g}M"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def _curves(
    series: Mapping[str, Sequence[Point]], place: Callable[[float, float], Point]
) -> Iterable[str]:
    """Draw the lines, each with its name at its end; names that would overlap are moved apart."""
    taken: list[float] = []
    for number, (name, points) in enumerate(series.items()):
        color = _COLORS[number % len(_COLORS)]
        placed = [place(x, y) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        weight = 3 if number == 0 else 1.6
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{weight}"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in placed)
        x, y = placed[-1]
        while any(abs(y - other) < 12 for other in taken):
            y += 4
        taken.append(y)
        yield _text(x + 8, y + 4, name, color=color)


def _scale(xs: Sequence[float], *, log: bool) -> dict[float, float]:
    """Map values to 0..1. On a logarithmic scale, zero is one decade left of the next value."""
    values = {x: math.log10(x) if log and x > 0 else x for x in xs}
    if log and xs and xs[0] == 0 and len(xs) > 1:
        values[xs[0]] = values[xs[1]] - 1
    low, high = min(values.values(), default=0), max(values.values(), default=1)
    return {x: (value - low) / ((high - low) or 1) for x, value in values.items()}


def _steps(highest: float) -> list[float]:
    """Return round numbers from 0 to the first that is at least `highest`."""
    size = 10 ** math.floor(math.log10(highest))
    step = next(size * each for each in (0.2, 0.5, 1, 2) if highest / (size * each) <= _MAX_TICKS)
    return [step * number for number in range(math.ceil(highest / step) + 1)]


def _text(x: float, y: float, text: str, *, anchor: str = "start", color: str = "#24292f") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{escape(text)}</text>'
    )


def _line(start: Point, end: Point, color: str = "#24292f") -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>'


def _rect(corner: Point, size: Point, color: str) -> str:
    (x, y), (width, height) = corner, size
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{color}"/>'


def _svg(title: str, height: float, parts: Iterable[str]) -> str:
    box = f'viewBox="0 0 {_WIDTH} {height:.0f}"'
    look = 'font-family="sans-serif" font-size="13"'
    name = f'role="img" aria-label="{escape(title)}"'
    head = f'<text x="12" y="24" font-size="15" font-weight="bold">{escape(title)}</text>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {box} {look} {name}>',
            _rect((0, 0), (_WIDTH, height), "#ffffff"),
            head,
            *parts,
            "</svg>\n",
        ]
    )
