"""Headers of a request: which ones a tenant may set, and which ones only the first origin gets."""

import re
from collections.abc import Collection, Sequence

from jobforge.errors import Invalid
from jobforge.redact import is_secret_name

Headers = Sequence[tuple[str, str]]

_MOST = 60
_LONGEST = 8_192
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# Headers about the connection or the body, which the client sets itself.
FORBIDDEN_HEADERS = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings"),
        *("host", "content-length", "expect", "accept-encoding"),
    )
)
# For JSON Schema, whose patterns are case-sensitive.
FORBIDDEN_HEADERS_PATTERN = "^({})$".format(
    "|".join(
        "".join(f"[{sign.upper()}{sign}]" if sign.isalpha() else sign for sign in name)
        for name in sorted(FORBIDDEN_HEADERS)
    )
)
# Parts of header names that indicate a credential, in addition to `is_secret_name`.
_PRIVATE = re.compile(
    r"key|auth|sig|signature|session|secret|passw|credential|csrf|xsrf|assertion|access"
)


def check_headers(headers: Headers, *, field: str = "headers") -> None:
    """Raise Invalid if a header is malformed, or may not be set by the caller."""
    if len(headers) > _MOST:
        raise Invalid(f"{field} must have at most {_MOST} headers", field=field)
    for name, value in headers:
        if not _NAME.fullmatch(name):
            raise Invalid(f"{field} has an invalid header name", field=field)
        if name.lower() in FORBIDDEN_HEADERS:
            raise Invalid(f"The header '{name}' is reserved for the connector", field=field)
        # Do not quote the value: it may be a secret.
        if len(value) > _LONGEST or not _VALUE.fullmatch(value):
            raise Invalid(f"The header '{name}' has an invalid value", field=field)


def remove_private_headers(headers: Headers, private: Collection[str]) -> Headers:
    """Return the headers for another origin: without `private` ones and credentials."""
    hidden = {name.lower() for name in private}
    return tuple(
        (name, value)
        for name, value in headers
        if name.lower() not in hidden and not _is_credential(name)
    )


def remove_headers(headers: Headers, names: Collection[str]) -> Headers:
    return tuple((name, value) for name, value in headers if name.lower() not in names)


def _is_credential(name: str) -> bool:
    lowered = name.lower()
    if lowered == "idempotency-key":
        return False
    return is_secret_name(name) or _PRIVATE.search(lowered) is not None
