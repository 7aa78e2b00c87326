"""An app whose job searches for credentials wherever a process can look. Tests copy it into a
folder.
"""

import ctypes
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobforge import JobForge

jf = JobForge()

# Written reversed, so that this source and its process's memory do not match.
CANARY = re.compile(rb"kan[a]ri[0-9a-f]{16}")
PIDFD_OPEN, PIDFD_GETFD = 434, 438
MOST_DESCRIPTORS, LARGEST_READ = 32, 1 << 20
libc = ctypes.CDLL(None, use_errno=True)


class Search:
    """The findings, as place and reversed canary, and the number of places searched."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self.tried = 0

    def look(self, place: str, content: bytes) -> None:
        self.found += [(place, hit.decode()[::-1]) for hit in CANARY.findall(content)]

    def read(self, path: Path) -> None:
        with suppress(OSError):
            self.look(str(path), path.read_bytes())

    def read_memory(self, pid: str) -> None:
        self.tried += 1
        with suppress(OSError), Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            for start, end in readable(pid):
                with suppress(OSError, ValueError, OverflowError):
                    memory.seek(start)
                    self.look(f"/proc/{pid}/mem", memory.read(end - start))

    def read_descriptors(self, pid: str) -> None:
        self.tried += 1
        with suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                fd = os.open(link, os.O_RDONLY | os.O_NONBLOCK)
                with suppress(OSError):
                    self.look(str(link), os.pread(fd, LARGEST_READ, 0))
                os.close(fd)

    def take_descriptors(self, pid: int) -> None:
        self.tried += 1
        process = libc.syscall(PIDFD_OPEN, pid, 0)
        for number in range(MOST_DESCRIPTORS):
            if libc.syscall(PIDFD_GETFD, process, number, 0) >= 0:
                self.found.append((f"descriptor {number} of {pid}", ""))
        os.close(process)


def readable(pid: str) -> Iterator[tuple[int, int]]:
    for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
        span, rights, *_ = line.split()
        if rights.startswith("r") and "[v" not in line:
            start, end = span.split("-")
            yield int(start, 16), int(end, 16)


def look_around(pids: list[int], files: list[str]) -> dict[str, Any]:
    """Search environment and arguments of all processes, further parts of these processes, and
    these files.
    """
    search = Search()
    search.tried += 2 + len(files)  # environments and arguments of all processes count once
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            search.read(entry / "environ")
            search.read(entry / "cmdline")
    for pid in {*pids, os.getppid()}:
        search.read_memory(str(pid))
        search.read_descriptors(str(pid))
        search.take_descriptors(pid)
    search.read_memory("self")
    search.read_descriptors("self")
    for file in files:
        search.read(Path(file))
    return {"found": search.found, "tried": search.tried}


scan = jf.job(key="scan", timeout=100)(look_around)
scan_in_fleet = jf.job(key="scan_in_fleet", queue="fleet", timeout=100)(look_around)


if __name__ == "__main__":
    # Run as a process that is not a job, but has the same user.
    print(json.dumps(look_around(json.loads(sys.argv[1]), [])))  # noqa: T201 - output for the test
