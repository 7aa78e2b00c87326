"""Write the TypeScript types of the HTTP API from the OpenAPI document.

The types are in the TypeScript SDK; the dashboard imports them from the SDK.
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
    """Return the first line of the types file, with the digest of the OpenAPI document."""
    return f"// Written by scripts/write_http_types.py. OpenAPI: {digest(text)}\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> int:
    text = document()
    with tempfile.TemporaryDirectory() as folder:
        source, types = Path(folder, "openapi.json"), Path(folder, "types.ts")
        source.write_text(text, encoding="utf-8")
        options = ("--root-types", "--root-types-no-schema-prefix", "--silent")
        exit_code = node.run(
            node.CODEGEN, "openapi-typescript", str(source), "-o", str(types), *options
        )
        if exit_code:
            return exit_code
        TYPES.write_text(mark(text) + types.read_text(encoding="utf-8"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
