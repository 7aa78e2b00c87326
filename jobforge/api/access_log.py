"""Buffered access log: writes log lines in batches, at most 10 ms after the request.

A sequential client sends its next request while the server formats the previous request's log line.
Formatting each line at once would delay that next request.
"""

import asyncio

from jobforge.observability import logs

_FLUSH_AFTER_S = 0.01


class AccessLog:
    def __init__(self) -> None:
        self._lines: list[logs.LogLine] = []

    def add(self, line: logs.LogLine) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_later(_FLUSH_AFTER_S, self.write)
        self._lines.append(line)

    def write(self) -> None:
        """Write all buffered lines; shutdown calls it too, as no timer fires after it."""
        lines, self._lines = self._lines, []
        logs.write(lines)
