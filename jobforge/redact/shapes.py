"""Hides secrets with a recognizable form: API keys of known services, JWT, PEM, URLs.

Every pattern begins at a word boundary and consumes the whole word. So no part of a text is read
twice, and the result has nothing that a second pass would take for a secret.
"""

import re

# A word boundary; also after an escape sequence for a line break or another character.
_EDGE = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_KEYS = r"""
    eyJ[\w-]{8,}+\.[\w-]{4,}+(?:\.[\w-]*+)*+           # JWT and JWE
  | A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}                   # AWS
  | AIza[\w-]{30,}+ | ya29\.[\w-]{8,}+ | GOCSPX-[\w-]{8,}+   # Google
  | gh[pousr]_[A-Za-z0-9]{16,}+ | github_pat_\w{16,}+  # GitHub
  | gl(?:pat|ptt|dt|rt)-[\w-]{16,}+                    # GitLab
  | [sr]k_(?:live|test)_[A-Za-z0-9]{8,}+               # Stripe
  | whsec_[A-Za-z0-9+/=]{8,}+                          # Standard Webhooks, Stripe
  | xox[a-z]-[\w-]{8,}+ | xapp-[\w-]{8,}+              # Slack
  | sk-(?=[\w-]{0,40}?[0-9])[\w-]{16,}+                # OpenAI, Anthropic
  | SG\.[\w-]{8,}+\.[\w-]{8,}+                         # SendGrid
  | (?:npm|hf)_[A-Za-z0-9]{20,}+ | pypi-[\w-]{16,}+ | do[opr]_v1_[a-f0-9]{16,}+
  | jf_(?:[a-z]++_)?[A-Za-z0-9]{8}_[\w-]{16,}+         # our own
"""
_KEY = re.compile(f"{_EDGE}(?:{_KEYS})[A-Za-z0-9_-]*+", re.ASCII | re.VERBOSE)

_STARTS = (
    *("eyJ", "AKIA", "ASIA", "ABIA", "ACCA", "AIza", "ya29.", "GOCSPX-", "gh", "gl", "k_live_"),
    *("k_test_", "whsec_", "xox", "xapp-", "sk-", "SG.", "npm_", "hf_", "pypi-", "_v1_", "jf_"),
)

_SLACK_HOOK = re.compile(r"(hooks\.slack\.com/(?:services|workflows)/)[\w/-]++", re.ASCII)

# pydantic shows an input value, shortened in its middle, without the name of its field.
_INPUT = re.compile(r"(\binput_value=)(?:(?!, input_type=)[^\n])++")

_SCHEME = re.compile(r"\b(bearer|basic)([ \t]{1,8}+)([A-Za-z0-9._~+/=-]{8,}+)", re.IGNORECASE)

_WORD = re.compile(r"[A-Za-z]?[a-z._-]*+")

_PEM = r"(?:[A-Z0-9]{2,12}+[ ]){0,2}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----"
_PEM_BEGIN = re.compile(f"-----BEGIN[ ]{_PEM}")
_PEM_END = re.compile(f"-----END[ ]{_PEM}")
_PEM_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s]|\\[nr])*+")
_BODY_LETTERS = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\\r\n \t"
)

_URL_START = re.compile(r"://[^/\s:@\"<>]{0,256}+:")
_URL_REST = re.compile(r"[^\s\"<>]*+")
_PORT = re.compile(r"[0-9]{1,5}(?![^/?#\s\"'<>),;\]}])")


def hide_shapes(text: str, marker: str) -> str:
    """Hide everything that looks like a secret, except private keys."""
    if "://" in text:
        text = _hide_passwords_in_urls(text, marker)
        text = _SLACK_HOOK.sub(rf"\g<1>{marker}", text)
    if "input_value=" in text:
        text = _INPUT.sub(rf"\g<1>{marker}", text)
    lowered = text.lower()
    if "bearer" in lowered or "basic" in lowered:
        text = _SCHEME.sub(lambda match: _hide_scheme(match, marker), text)
    # Searching for the prefixes is several times as fast as the pattern.
    return _KEY.sub(marker, text) if any(start in text for start in _STARTS) else text


def hide_private_keys(text: str, marker: str) -> str:
    """Hide private keys in PEM."""
    if "-----BEGIN" not in text:
        return text
    parts: list[str] = []
    done = 0
    has_end = True
    while begin := _PEM_BEGIN.search(text, done):
        end = _PEM_END.search(text, begin.end()) if has_end else None
        has_end = end is not None  # search once, or many beginnings take quadratic time
        rest = end or _PEM_BODY.match(text, begin.end())
        parts += (text[done : begin.start()], marker)
        done = rest.end() if rest else begin.end()
    return "".join((*parts, text[done:]))


def hide_pem_end(text: str, marker: str) -> str:
    """Hide the rest of a private key whose beginning was cut off."""
    end = _PEM_END.search(text)
    if end is None or _PEM_BEGIN.search(text, 0, end.start()):
        return text
    start = end.start()
    while start and text[start - 1] in _BODY_LETTERS:
        start -= 1
    return text[:start] + marker + text[end.end() :]


def _hide_passwords_in_urls(text: str, marker: str) -> str:
    parts: list[str] = []
    done = run_end = last_at = 0
    position = 0
    while start := _URL_START.search(text, position):
        position = start.end()
        if position > run_end:
            rest = _URL_REST.match(text, position)
            run_end = rest.end() if rest else position
            last_at = text.rfind("@", position, run_end)
        # Hide up to the last @, because an unencoded password may contain @ itself.
        if last_at < position or _PORT.match(text, position):
            continue
        parts += (text[done:position], marker)
        done = position = last_at
    return "".join((*parts, text[done:]))


def _hide_scheme(match: re.Match[str], marker: str) -> str:
    scheme, space, value = match.groups()
    return f"{scheme}{space}{marker}" if _looks_random(value) else match.group()


def _looks_random(value: str) -> bool:
    """Return whether this is not a word of prose, as in "a bearer certificate"."""
    return len(value) >= 24 or not _WORD.fullmatch(value)
