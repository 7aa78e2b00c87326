"""Random strings with secrets in them, and how Python redacts them."""

import random

from jobforge import redact

SEED = 20261115
_COUNT = 2_000
_LONGEST = 14
_PIECES = (
    *("password", "api_key", "X-Api-Key", "token", "max_tokens", "Cookie", "Authorization", "auth"),
    *("bearer", "Basic", "session_id", "dsn", "clientSecret", "otp", "connection_string", "name"),
    *(
        "=",
        ": ",
        " : ",
        "=>",
        ":=",
        "==",
        ">",
        "<",
        " ",
        "  ",
        "\n",
        "\t",
        ",",
        ", ",
        "\r\n",
        "\\n",
    ),
    *(
        '"',
        "'",
        '\\"',
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "&",
        "?",
        "/",
        "://",
        "@",
        ":",
        "--",
        "- ",
        "%3D",
    ),
    *("abc", "hunter2", "null", "true", "42", "Zm9vYmFyYmF6", "eyJhbGciOiJI.eyJzdWIi.abc", "value"),
    *(
        "ghp_abcdefghijklmnop12",
        "AKIAABCDEFGHIJKLMNOP",
        "sk-abcdef1234567890abcd",
        "xoxb-123456789",
    ),
    *("https://", "user:pw@host", "host:8080", "hooks.slack.com/services/T1/B2", "input_value="),
    *("-----BEGIN PRIVATE KEY-----", "MIIabc+/=", "-----END PRIVATE KEY-----", "é", "日本", ";"),
    *("certificate", "expected a comma", "correct horse battery", "correct%20horse%20battery"),
)


def redacted_samples() -> list[tuple[str, str, str]]:
    """Return strings, each with its redacted form and its redacted form as the end of a longer
    string.
    """
    redact.register_secret("correct horse battery")
    chance = random.Random(SEED)  # noqa: S311 - a seed
    texts = ["".join(chance.choices(_PIECES, k=chance.randint(1, _LONGEST))) for _ in range(_COUNT)]
    return [
        (text, redact.redact_text(text), redact.redact_tail(text, is_cut=True)) for text in texts
    ]
