"""Errors about the URL of a database, without any part of its password."""

import re

from jobforge.errors import ConfigError


def check_url(url: str, *, field: str = "database_url") -> None:
    """Raise ConfigError for a password that is not percent-encoded, so that it ends too early.

    The rest of it would be taken for the host or the database, and be shown as such.
    """
    authority, _, path = re.split(r"[?]", url.partition("://")[2], maxsplit=1)[0].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise ConfigError(
            "the database URL has more than one @, or one after a /",
            field=field,
            hint="percent-encode the password: @ is %40, / is %2F, ? is %3F, # is %23, : is %3A",
        )


def explained_url(text: str) -> str:
    """What libpq and psycopg say about a URL that cannot be used, without any part of its password.

    They quote what they could not read. A password that was not percent-encoded is cut at any sign,
    so a quoted part may be a part of it: of its host what is before the last @ is hidden, and all
    that is quoted as a token, a parameter or a value.
    """
    text = _HOST.sub(r"\1***@", text)
    if _CONNECTION.search(text):
        return text
    return _QUOTED.sub(lambda found: found[1] or found[2] or '"***"', text)


# psycopg quotes the host that it could not resolve, libpq the one that it could not reach.
_HOST = re.compile(r"""((?:host|host name|server at|socket) ["']).*@""", re.DOTALL)
_CONNECTION = re.compile(r"connection to server |failed to resolve host ")
# Greedy, because what is quoted may have a quote in it. `"="` and `"]"` are libpq's own words.
_QUOTED = re.compile(r'''("=")|("]"(?= in IPv6))|".*"''', re.DOTALL)
