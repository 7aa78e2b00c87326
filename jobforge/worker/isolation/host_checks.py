"""The isolation checks of `jobforge doctor`: which levels this host permits."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping

from jobforge.db.doctor.findings import Finding, Grade
from jobforge.worker.isolation.levels import LABELS

_CHECK = "isolation"
_LONGEST_S = 60


def check_isolation() -> list[Finding]:
    """Probe the levels and return findings; empty on other systems than Linux: one level only."""
    if sys.platform != "linux":
        return []
    probe = [sys.executable, "-m", "jobforge.worker.isolation.probe"]
    done = subprocess.run(probe, capture_output=True, check=False, timeout=_LONGEST_S)
    if done.returncode != 0:
        return [Finding(_CHECK, Grade.WARNING, "The check of the isolation levels failed")]
    return list(findings_from_probe(json.loads(done.stdout)))


def findings_from_probe(found: Mapping[str, str | None]) -> Iterator[Finding]:
    """Yield the findings for the JSON object that probe.py prints."""
    possible = [label for label in LABELS if found[label] is None]
    yield Finding(
        _CHECK,
        Grade.OK,
        f"A worker of this user on this host can use the levels {', '.join(possible)}",
    )
    for label in LABELS:
        lack = found[label]
        if lack is not None:
            yield Finding(_CHECK, Grade.OK, f"Level {label} is not available: {lack}")
    is_shared = "user" not in possible
    is_guarded = found["landlock"] is not None or found.get("yama", "0") != "0"
    if is_shared and not is_guarded:
        yield Finding(
            _CHECK,
            Grade.WARNING,
            "Jobs at the level process can read each other's memory",
            "Use Linux 5.19 or later, or set kernel.yama.ptrace_scope=1 with sysctl",
        )
