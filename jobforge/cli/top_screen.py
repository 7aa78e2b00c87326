"""The terminal UI of `jobforge top`: tables and key bindings. top_data.py reads the data."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static

from jobforge.cli import output
from jobforge.cli.top_data import Overview, OverviewRows
from jobforge.errors import JobForgeError, Json
from jobforge.process import interrupts

OverviewReader = Callable[[str | None, str], Overview]

_EXIT_TIMEOUT_S = 3.0
_ID_CHARS = 18  # enough of an id to be unique in a table
_STATES = ("running", "failed")


class TopApp(App[None]):
    """Polls the overview. `read` takes the ID of the tenant and the state of the jobs to show."""

    TITLE = "jobforge top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #summary { height: 1; padding: 0 1; background: $primary; color: $text; }
    Pane { height: 1fr; border: round $primary; }
    Pane:focus { border: round $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "Quit"),
        # Replaces Textual's binding, which only shows which key quits.
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        ("p", "pause", "Pause"),
        ("s", "sort", "Sort by the next column"),
        ("r", "reverse", "Reverse"),
        ("f", "failed", "Running or failed jobs"),
        ("tab", "app.focus_next", "Next table"),
    ]

    def __init__(self, read: OverviewReader, first: Overview, *, every_s: float) -> None:
        super().__init__()
        self._read = read
        self._first = first
        self._every_s = every_s
        self._chosen: str | None = None
        self._state = _STATES[0]
        self._is_paused = False

    def on_load(self) -> None:
        # Before Textual changes the terminal, which only an orderly exit restores.
        if not self.is_headless:
            interrupts.on_stop_signals(asyncio.get_running_loop(), self.action_interrupt)

    def compose(self) -> ComposeResult:
        yield Static(id="summary", markup=False)
        yield Pane("queues")
        if self._first.tenants is not None:
            yield Pane("tenants")
        if self._first.workers is not None:
            yield Pane("workers")
        yield Pane("jobs")
        yield Footer()

    def on_mount(self) -> None:
        self._show(self._first)
        self.set_interval(self._every_s, self._load_unless_paused)

    def action_interrupt(self) -> None:
        # The loading thread may be blocked on a database or a server.
        interrupts.exit_within(interrupts.EXIT_CODE, _EXIT_TIMEOUT_S)
        self.exit(return_code=interrupts.EXIT_CODE)

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        self._show_summary("paused; press p to resume" if self._is_paused else "…")
        self._load_unless_paused()

    def action_sort(self) -> None:
        if isinstance(self.focused, Pane):
            self.focused.sort_by_next()

    def action_reverse(self) -> None:
        if isinstance(self.focused, Pane):
            self.focused.reverse()

    def action_failed(self) -> None:
        self._state = _STATES[self._state == _STATES[0]]
        self.load_overview()

    @on(DataTable.RowSelected, "#tenants")
    def choose(self, selected: DataTable.RowSelected) -> None:
        self._chosen = selected.row_key.value
        self.load_overview()

    @on(DataTable.HeaderSelected)
    def sort(self, selected: DataTable.HeaderSelected) -> None:
        if isinstance(selected.data_table, Pane):
            selected.data_table.sort_by(str(selected.column_key.value))

    @work(thread=True, exclusive=True)
    def load_overview(self) -> None:
        try:
            overview = self._read(self._chosen, self._state)
        except JobForgeError as error:
            self.call_from_thread(self._show_summary, f"{error.message}; retrying")
        else:
            self.call_from_thread(self._show, overview)

    def _load_unless_paused(self) -> None:
        if not self._is_paused:
            self.load_overview()

    def _show(self, overview: Overview) -> None:
        self._show_summary(f"{overview.at.astimezone():%H:%M:%S}  {overview.summary}")
        rows = overview.to_rows()
        for pane in self.query(Pane):
            pane.show(rows[str(pane.id)])
        jobs = self.query_one("#jobs", Pane)
        jobs.border_title = f"{self._state} jobs" + (
            f" of {overview.tenant}" if overview.tenant else ""
        )

    def _show_summary(self, words: str) -> None:
        self.query_one("#summary", Static).update(output.clean(words))


class Pane(DataTable[Text]):
    """A table that keeps its sort order and cursor row when its rows are replaced."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name, cursor_type="row", zebra_stripes=True)
        self.border_title = name
        self._rows: OverviewRows = []
        self._by: str | None = None
        self._is_reversed = False

    def show(self, rows: OverviewRows) -> None:
        self._rows = rows
        row = self.cursor_row
        self.clear(columns=True)
        for name in rows[0] if rows else ():
            self.add_column(self._title(name), key=name)
        for each in self._sorted():
            key = str(each.get("id") or each.get("name"))
            self.add_row(*map(_to_cell, each.values()), key=key)
        self.move_cursor(row=row)

    def sort_by(self, name: str) -> None:
        """Sort by the column; reverse the order if it is the current column."""
        self._is_reversed = self._by == name and not self._is_reversed
        self._by = name
        self.show(self._rows)

    def sort_by_next(self) -> None:
        names = list(self._rows[0]) if self._rows else []
        if names:
            at = names.index(self._by) if self._by in names else -1
            self._by = names[(at + 1) % len(names)]
            self.show(self._rows)

    def reverse(self) -> None:
        self._is_reversed = not self._is_reversed
        self.show(self._rows)

    def _title(self, name: str) -> str:
        arrow = ("▼" if self._is_reversed else "▲") if name == self._by else ""
        return f"{name.upper().replace('_', ' ')}{arrow}"

    def _sorted(self) -> OverviewRows:
        by = self._by
        if by is None:
            return self._rows[::-1] if self._is_reversed else self._rows
        return sorted(
            self._rows,
            key=lambda row: (row[by] is None, row[by] if row[by] is not None else 0),
            reverse=self._is_reversed,
        )


def _to_cell(value: Json) -> Text:
    # Text, not markup: names and error messages are untrusted.
    if isinstance(value, datetime):
        return Text(output.format_relative_time(value))
    if isinstance(value, UUID):
        return Text(str(value)[:_ID_CHARS])
    return Text(
        output.format_cell(value), justify="right" if isinstance(value, int | float) else "left"
    )
