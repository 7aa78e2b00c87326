"""Hides secrets that follow their name in a text: `password=…`, `"api_key": "…"`, `Cookie: …`.

Reads the text once. At each name that is_secret_name recognizes, it determines how the value begins
(quote, bracket, plain word), skips to the value's end, and continues there. In doubt, it hides
more.
"""

import re

from jobforge.redact.names import is_header_name, is_secret_name

# The part of a name that triggers the check; is_secret_name then decides by the whole name.
_NOTICED = r"""
    pass(?:word|wd|phrase|code) | pwd | secret | token | credential | creds | cookie
  | auth(?:orization)? | bearer | jwt | t?otp | cv[vc] | dsn
  | (?:api|private|access|account|auth|encryption|master|service|session|shared|signing|ssh|storage)
    [_-]?(?:key|id) | connection[_-]?string
"""
# Between name and value in a pair, `["Cookie", "…"]`, or in `{"name": "Cookie", "value": "…"}`.
_BESIDE = r"""[ \t]{0,8}+,\s{0,8}+(?:\\{0,8}+["']value\\{0,8}+["'][ \t]{0,8}+:[ \t]{0,8}+)?"""
_NAME = re.compile(
    rf"""(?:{_NOTICED})[\w-]{{0,40}}+
    (?P<quote>\\{{0,8}}+["'])? \]?
    (?P<sign>[ \t]{{0,8}}+(?:=>|:=|==?|:|>)[ \t]{{0,8}}+ | {_BESIDE} | [ \t]{{1,8}}+)""",
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
# A text without any of these has no name; this check is ten times as fast as the pattern.
_HINTS = (
    *("pass", "pwd", "secret", "token", "cred", "cookie", "auth", "bearer", "jwt", "otp", "cv"),
    *("dsn", "key", "session", "connection"),
)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_LONGEST_BEFORE = 40

_OPENING = re.compile(r"[bBrRuUfF]{0,2}(\\*+)([\"'])")
# Starts at the first backslash of a run, because starting at each takes quadratic time.
_CLOSING = re.compile(r"(?<!\\)(\\*+)([\"'])|\n")
_BRACKETS = re.compile(r"[][(){}\n]")
_OPEN = frozenset("[({")
_LONGEST_BRACKET = 8192

# A quote inside a value belongs to it, unless the next character shows that a string ends there.
_INNER_QUOTE = r"[\"'](?![\s,;:)}\]\\]|\Z)"
_WORD = re.compile(rf"(?:[^\s&\"'<>]|{_INNER_QUOTE})*+")
_LINE = re.compile(rf"(?:[^\r\n\"'<>]|{_INNER_QUOTE})*+")
_SCALAR = re.compile(r"[^\s,}\]]*+")
_ELEMENT = re.compile(r"[^<]*+")

_LIST_MARK = re.compile(r"[ \t]*(?:[-*+>#][ \t]+)?[\"']?\Z")
_HARMLESS = frozenset(
    ("", "none", "null", "true", "false", "str", "int", "bytes", "optional", "required", "missing")
)


def hide_assignments(text: str, marker: str) -> str:
    """Return the text without the values of secret names."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    parts: list[str] = []
    done = position = 0
    while found := _NAME.search(text, position):
        position = found.end()
        span = _value(text, found)
        if span is None:
            continue
        start, end = span
        if text[start:end].strip(" \t,;)}]").lower() in _HARMLESS:
            continue
        parts += (text[done:start], marker)
        done = position = end
    return "".join((*parts, text[done:])) if parts else text


TextSpan = tuple[int, int]


def _value(text: str, found: re.Match[str]) -> TextSpan | None:
    """Return where the value of this name begins and ends; None if it is not secret."""
    name, name_start = _name(text, found)
    if not is_secret_name(name):
        return None
    start, sign = found.end(), found["sign"].strip()
    if sign == ">":
        return _match(_ELEMENT, text, start) if text[name_start - 1 : name_start] == "<" else None
    if not sign and not _stands_for_assignment(name, text[start : start + 1]):
        return None
    if sign.startswith(","):
        return _match_pair(text, found, name_start)
    enclosed = _match_enclosed(text, start, is_json=bool(found["quote"]))
    if enclosed or not found["quote"]:
        return enclosed or _match_bare(text, start, name=name, name_start=name_start, sign=sign)
    return _match(_SCALAR, text, start)


def _match_pair(text: str, found: re.Match[str], name_start: int) -> TextSpan | None:
    """Return the span of a value that is the next element after its name."""
    if not found["quote"]:
        return None
    if found["sign"].rstrip().endswith(":"):
        return _match_enclosed(text, found.end(), is_json=True)
    before = text[max(0, name_start - _LONGEST_BEFORE) : name_start].rstrip("\\\"'b")
    opening = _OPENING.match(text, found.end()) if before.endswith(("[", "(")) else None
    if opening is None:
        return None
    end = _closing(text, opening)
    # In a list of three or more elements, none is a name.
    after = text[end : end + _LONGEST_BEFORE].lstrip("\\\"' \t\n")
    return (opening.end(), end) if after.startswith(("]", ")")) else None


def _match_enclosed(text: str, start: int, *, is_json: bool) -> TextSpan | None:
    """Return the span of a value in quotes or brackets."""
    if opening := _OPENING.match(text, start):
        return opening.end(), _closing(text, opening)
    if text[start : start + 1] in _OPEN:
        return start, _end_of_brackets(text, start, is_json=is_json)
    return None


def _match_bare(text: str, start: int, *, name: str, name_start: int, sign: str) -> TextSpan | None:
    if is_header_name(name) or (sign == ":" and _begins_a_line(text, name_start)):
        return _match(_LINE, text, start)
    span = _match(_WORD, text, start)
    return None if sign == ":" and _is_prose(name, text[slice(*span)]) else span


def _name(text: str, found: re.Match[str]) -> tuple[str, int]:
    before = text[max(0, found.start() - _LONGEST_BEFORE) : found.start()]
    start = found.start() - (len(before) - len(before.rstrip(_LETTERS)))
    end = found.start("quote") if found["quote"] else found.start("sign")
    return text[start:end].rstrip("]"), start


def _stands_for_assignment(name: str, first: str) -> bool:
    """Return whether name and value are separated by a space only: `--password x`, SQL's
    `password 'x'`."""
    if name.startswith("--"):
        return first not in ("-", "")
    return first == "'" and name.lower().endswith("password")


def _closing(text: str, opening: re.Match[str]) -> int:
    """Return the position of the closing quote of a value, or of the line's end without one."""
    depth, quote = len(opening[1]), opening[2]
    for closing in _CLOSING.finditer(text, opening.end()):
        if closing[2] is None:
            return closing.start()
        # JSON within JSON: n backslashes opened it; a quote inside has 2n + 1 of them.
        if closing[2] == quote and len(closing[1]) % (2 * depth + 2) == depth:
            return closing.end() - 1 - depth
    return len(text)


def _end_of_brackets(text: str, start: int, *, is_json: bool) -> int:
    """Return the end of a bracketed value; outside JSON, it ends with the line at the latest."""
    limit = min(len(text), start + _LONGEST_BRACKET)
    depth = 0
    for found in _BRACKETS.finditer(text, start, limit):
        if found.group() == "\n":
            if is_json:
                continue
            return found.start()
        depth += 1 if found.group() in _OPEN else -1
        if depth == 0:
            return _end_of_joined(text, found.end())
    return limit


def _end_of_joined(text: str, end: int) -> int:
    """Return the end including text attached to a closing bracket, as in `[redacted]rest`."""
    return _match(_WORD, text, end)[1] if text[end : end + 1].isalnum() else end


def _begins_a_line(text: str, start: int) -> bool:
    lowest = max(0, start - _LONGEST_BEFORE)
    line = text.rfind("\n", lowest, start)
    if line < 0 and lowest > 0:
        return False
    return _LIST_MARK.fullmatch(text, max(line + 1, lowest), start) is not None


def _is_prose(name: str, value: str) -> bool:
    """Return whether this is prose, as in "unexpected token: expected a comma"."""
    return name.lower().endswith("token") and value.rstrip(".,;").isalpha()


def _match(pattern: re.Pattern[str], text: str, start: int) -> TextSpan:
    matched = pattern.match(text, start)
    return start, matched.end() if matched else start
