"""Writes the generated reference pages in docs/."""

from pathlib import Path

import api_page
import cli_page
import errors_page
import python_page
import sql_page
import tables_page
import typescript_page
from fresh_database import open_fresh_database


def main() -> None:
    for script in (api_page, errors_page, python_page, typescript_page):
        _write(script.PAGE, script.page())
    _write(cli_page.PAGE, cli_page.page(cli_page.PAGE.read_text(encoding="utf-8")))
    with open_fresh_database() as conn:
        for script in (sql_page, tables_page):
            _write(script.PAGE, script.page(conn))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    print(f"{path.name} written")


if __name__ == "__main__":
    main()
