"""Recognizes names of secrets: `password`, `X-Api-Key`, `accessToken`, `AWS_SECRET_ACCESS_KEY`.

A name is split into words, whatever their separator. A name of an attribute of a secret, such as
`token_type` or `max_tokens`, is not a secret name.
"""

import re
from functools import lru_cache

# Of a longer name only the end is checked.
MAX_NAME_LENGTH = 128


def is_secret_name(name: str) -> bool:
    """Return whether the value under this name must not be shown."""
    return _is_secret_cached(name[-MAX_NAME_LENGTH:])


def is_header_name(name: str) -> bool:
    """Return whether the secret extends to the line's end, as in HTTP headers."""
    return name.lower().replace("_", "-").endswith(("authorization", "cookie"))


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRET = _words("""
    authorization cookie cookies credential credentials creds cvc cvv jwt otp passcode passphrase
    passwd password passwords pwd secret secrets token tokens totp
""")
# Secret only at the end of a name: `auth` has credentials, `auth_method` does not.
_SECRET_AT_THE_END = _words("auth bearer dsn")
# Words joined without a separator: DBPASSWORD, apikey, accesstoken.
_ENDINGS = tuple(
    _words("""
        password passwd passphrase secret token cookie credential credentials authorization
        apikey accesskey privatekey secretkey sessionid
    """)
)
_OPENERS = _words("""
    access account api auth encryption master private secret service session shared signing ssh
    storage
""")
_PAIRS = frozenset(
    [(opener, key) for opener in _OPENERS for key in ("key", "keys")]
    + [("connection", "string"), ("secret", "id"), ("session", "id")]
)
# At the end of a name: the value is an attribute of the secret, not the secret.
_ABOUT = _words("""
    age at bucket budget count counts dir enabled endpoint expires expiration expired expiry field
    file id ids index kind len length limit limits method mode name names path policy provider
    rate ref required scheme size status ttl type types uri url usage used valid version
""")
# Before "tokens": the value is a number of tokens, as language models count them.
_COUNTING = _words("""
    cached completion context input max min n num output prompt reasoning remaining total used
""")


@lru_cache(maxsize=4096)
def _is_secret_cached(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    return any(_is_secret_at(words, place) for place in range(len(words)))


def _is_secret_at(words: list[str], place: int) -> bool:
    word, rest = words[place], words[place + 1 :]
    if rest and (word, rest[0]) in _PAIRS:
        return not _is_about(rest[1:])
    if word in _SECRET_AT_THE_END:
        return not rest
    if word == "tokens" and place and words[place - 1] in _COUNTING:
        return False
    if word in _SECRET or word.endswith(_ENDINGS):
        return not _is_about(rest)
    return False


def _is_about(rest: list[str]) -> bool:
    return bool(rest) and rest[-1] in _ABOUT
