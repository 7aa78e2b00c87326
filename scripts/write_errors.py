"""Writes the errors of jobforge/errors.py for other languages: contract/errors.json, errors.ts."""

import json
import sys
from pathlib import Path

from jobforge.db import sqlstates
from jobforge.errors import JobForgeError, Json

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "contract" / "errors.json"
TYPESCRIPT = ROOT / "sdks" / "typescript" / "src" / "errors.ts"

_HEAD = """\
/**
 * Every error that JobForge raises. scripts/write_errors.py writes this file from
 * jobforge/errors.py, so that both languages have the same errors. Change them there.
 *
 * `code` is stable and is what programs compare; messages are for people and may change.
 */

export interface ErrorFacts {
  readonly field?: string | undefined;
  readonly detail?: Readonly<Record<string, unknown>> | undefined;
  readonly hint?: string | undefined;
  readonly cause?: unknown;
}

/** The operation failed. */
export class JobForgeError extends Error {
  static readonly code: string = "error";
  static readonly sqlstate: string | null = null;
  static readonly message: string = "The operation failed";
  readonly field: string | undefined;
  readonly detail: Readonly<Record<string, unknown>>;
  readonly hint: string | undefined;

  constructor(message?: string | null, facts: ErrorFacts = {}) {
    super(message || new.target.message, facts.cause === undefined ? {} : { cause: facts.cause });
    this.name = new.target.name;
    this.field = facts.field;
    this.detail = facts.detail ?? {};
    this.hint = facts.hint;
  }

  get code(): string {
    return (this.constructor as typeof JobForgeError).code;
  }
}
"""


def table() -> dict[str, Json]:
    return {
        "classes": [_row(error) for error in _tree(JobForgeError)],
        "denied": [sqlstates._INSUFFICIENT_PRIVILEGE],  # noqa: SLF001 - exports the table of sqlstates.py
        "contended": sorted(sqlstates._CONTENDED),  # noqa: SLF001 - exports the table of sqlstates.py
        "unavailable": sorted(sqlstates._UNREACHABLE),  # noqa: SLF001 - exports the table of sqlstates.py
    }


def json_text() -> str:
    return json.dumps(table(), indent=2, ensure_ascii=False) + "\n"


def typescript() -> str:
    facts = table()
    classes = facts["classes"][1:]
    parts = [_HEAD, *(_class(row) for row in classes)]
    names = "".join(f"  {row['name']},\n" for row in facts["classes"])
    parts.append(f"\nexport const ERRORS: readonly (typeof JobForgeError)[] = [\n{names}];\n")
    for name in ("denied", "contended", "unavailable"):
        listed = "".join(f'  "{state}",\n' for state in facts[name])
        one = ", ".join(f'"{state}"' for state in facts[name])
        elements = f"[{one}]" if len(facts[name]) == 1 else f"[\n{listed}]"
        parts.append(
            f"\nexport const {name.upper()}_SQLSTATES: ReadonlySet<string> = new Set({elements});\n"
        )
    return "".join(parts)


def _row(error: type[JobForgeError]) -> dict[str, Json]:
    return {
        "name": error.__name__,
        "parent": None if error is JobForgeError else error.__mro__[1].__name__,
        "code": error.code,
        "sqlstate": error.sqlstate,
        "message": error().message,
    }


def _tree(root: type[JobForgeError]) -> list[type[JobForgeError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in _tree(child))]


def _class(row: dict[str, Json]) -> str:
    message = json.dumps(row["message"], ensure_ascii=False)
    line = f"  static override readonly message: string = {message};\n"
    if len(line) > 101:
        line = f"  static override readonly message: string =\n    {message};\n"
    return (
        f"\n/** {row['message']}. */\n"
        f"export class {row['name']} extends {row['parent']} {{\n"
        f'  static override readonly code: string = "{row["code"]}";\n'
        f"  static override readonly sqlstate: string | null = {json.dumps(row['sqlstate'])};\n"
        f"{line}"
        "}\n"
    )


def main() -> int:
    for path, text in ((TABLE, json_text()), (TYPESCRIPT, typescript())):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
