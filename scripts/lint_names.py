"""Finds class names and type aliases that two modules of the package define.

A name that is unique in the package can be found by one search, and is unambiguous without its
module. Type variables are ignored.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jobforge"


def main() -> int:
    homes = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in list_types(path):
            homes[name].append(str(path.relative_to(ROOT)))
    faults = [f"{name}: {', '.join(paths)}" for name, paths in homes.items() if len(paths) > 1]
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"{len(homes)} type names, {len(faults)} defined twice")
    return 1 if faults else 0


def list_types(path: Path) -> Iterator[str]:
    """Yield the names of the module's top-level classes and capitalized type aliases."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name) and _is_type_name(target.id):
                yield target.id


def _is_type_name(name: str) -> bool:
    bare = name.lstrip("_")
    return len(bare) > 1 and bare[0].isupper() and not bare.isupper() and not bare.endswith("_co")


if __name__ == "__main__":
    sys.exit(main())
