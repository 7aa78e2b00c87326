"""The table of attacks by level in docs/isolation.md: run the attacks, and write or read the table.

Run it as root from the folder tests: `python -m integration.attack_table`.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "isolation.md"
LEVELS = ("process", "user", "namespace", "strict")
HEADER = f"| A job can … | {' | '.join(f'`{level}`' for level in LEVELS)} |\n"
RULE = f"|{' --- |' * (1 + len(LEVELS))}\n"
ANSWERS = {False: "no", True: "**yes**"}

LABELS = {
    "can_read_the_memory_of_a_sibling": "read another job's memory",
    "can_take_the_socket_of_a_sibling": "take another job's connection to the worker",
    "can_read_the_files_of_a_sibling": "read another job's temporary files",
    "can_signal_a_sibling_or_the_worker": "send signals to other jobs, the zygote or the worker",
    "can_list_the_processes_of_others": "list other processes and their arguments",
    "can_leave_a_chain_of_forks": "leave a fork chain",
    "can_leave_a_chain_of_forks_beside_another_job": "leave a fork chain while another job runs",
    "can_leave_a_hidden_daemon": "leave a daemon without a session or environment of the job",
    "can_survive_the_death_of_the_zygote": "leave a daemon that outlives a killed zygote",
    "can_exceed_its_memory_by_a_memfd": "exceed its memory limit with an unmapped memfd",
    "can_exceed_its_memory_by_dev_shm": "exceed its memory limit with files in `/dev/shm`",
    "can_exceed_its_memory_by_forks": "exceed its memory limit with forks",
    "can_fork_without_limit": "start more processes than `job_processes`",
    "can_leave_files_in_dev_shm": "leave files in `/dev/shm`",
    "can_leave_system_v_memory": "leave System V shared memory",
}

AttackResults = dict[str, bool]


def attack(level: str, user: int | None = None) -> AttackResults | str:
    """Return which attacks succeed at the level, or what the host lacks for that level."""
    arguments = [level] if user is None else [level, str(user)]
    done = subprocess.run(
        [sys.executable, "-m", "integration.attack_runner", *arguments],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return (
        str(found["lack"]) if "lack" in found else {str(name): bool(found[name]) for name in found}
    )


def read() -> dict[str, AttackResults]:
    """Return the table of the page, by level."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(HEADER + RULE)
    rows = [_cells(line) for line in rest.partition("\n\n")[0].splitlines()]
    names = {label: name for name, label in LABELS.items()}
    return {
        level: {names[cells[0]]: cells[column] == ANSWERS[True] for cells in rows}
        for column, level in enumerate(LEVELS, 1)
    }


def write(found: Mapping[str, AttackResults]) -> None:
    rows = [
        f"| {label} | {' | '.join(ANSWERS[found[level][name]] for level in LEVELS)} |"
        for name, label in LABELS.items()
    ]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(HEADER + RULE)
    after = rest.partition("\n\n")[2]
    PAGE.write_text(f"{before}{HEADER}{RULE}{chr(10).join(rows)}\n\n{after}", encoding="utf-8")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def main() -> None:
    found: dict[str, AttackResults] = {}
    for level in LEVELS:
        of_level = attack(level)
        if isinstance(of_level, str):
            sys.exit(of_level)
        found[level] = of_level
    write(found)


if __name__ == "__main__":
    main()
