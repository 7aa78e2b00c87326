"""Writes TypeScript types of the HTTP API from its OpenAPI document.

They are part of the SDK; the dashboard imports them from there.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import node

from jobforge.api import create_app
from jobforge.config import Config

TYPES = node.SDK / "src" / "http" / "types.ts"


def document() -> str:
    return json.dumps(create_app(Config()).openapi(), indent=2, ensure_ascii=False)


def mark(text: str) -> str:
    """Return the first line of the types, which identifies the OpenAPI document."""
    return f"// Written by scripts/write_http_types.py. OpenAPI: {digest(text)}\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> int:
    text = document()
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "openapi.json"), Path(folder, "types.ts")
        source.write_text(text, encoding="utf-8")
        options = ("--root-types", "--root-types-no-schema-prefix", "--silent")
        failed = node.run(
            node.CODEGEN, "openapi-typescript", str(source), "-o", str(made), *options
        )
        if failed:
            return failed
        TYPES.write_text(mark(text) + made.read_text(encoding="utf-8"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
