"""The lines of requests in the log, written some together.

A client that waits for each answer sends its next request while the line of the last one is put
into words: by itself, it would be waited for.
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
        """All that there are; also at the very end, when no loop will call it again."""
        lines, self._lines = self._lines, []
        logs.write(lines)
