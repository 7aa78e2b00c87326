"""The database under a server, as the server sees it. Who has a database looks for himself."""

from jobforge.client.request import Request
from jobforge.errors import Json


def read_findings() -> Request[list[dict[str, Json]]]:
    """What a doctor at the server's place finds."""
    return Request("GET", "/database", lambda answer: answer["findings"], is_repeatable=True)
