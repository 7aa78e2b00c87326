"""The tail of a job's output, truncated, redacted, and escaped for display on a terminal."""

from jobforge.redact import RedactionScope, redact_tail

TAIL_BYTES = 64 * 1024


class OutputTail:
    """The last bytes of a stream of any length."""

    __slots__ = ("_bytes", "_is_cut", "_limit")

    def __init__(self, limit: int = TAIL_BYTES) -> None:
        self._limit = limit
        self._bytes = bytearray()
        self._is_cut = False

    def feed(self, data: bytes) -> None:
        self._bytes += data
        # Let it grow to twice the limit, so that not every piece of a long stream moves the bytes.
        if len(self._bytes) > 2 * self._limit:
            self._cut()

    def __len__(self) -> int:
        return len(self._bytes)

    def text(self, scope: RedactionScope | None = None) -> str | None:
        """Return the redacted, printable tail; None if nothing was printed."""
        if not self._bytes:
            return None
        if len(self._bytes) > self._limit:
            self._cut()
        text = _drop_partial_character(bytes(self._bytes), is_cut=self._is_cut).decode(
            "utf-8", "replace"
        )
        escaped = escape_control_characters(redact_tail(text, scope, is_cut=self._is_cut))
        return _keep_last_bytes(escaped, self._limit)

    def _cut(self) -> None:
        del self._bytes[: -self._limit]
        self._is_cut = True


def escape_control_characters(text: str) -> str:
    """Replace characters that control a terminal."""
    return text.replace("\r\n", "\n").translate(_ESCAPES)


# Control pictures for the C0 characters; escapes as in Python literals for the others.
_ESCAPES: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    # Characters that reorder text or are invisible.
    **{code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
    **{code: f"\\u{code:04x}" for code in (0x200E, 0x200F, 0x2028, 0x2029, 0xFEFF)},
}


def _drop_partial_character(data: bytes, *, is_cut: bool) -> bytes:
    """Drop leading UTF-8 continuation bytes, which the cut separated from their character."""
    start = 0
    while is_cut and start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def _keep_last_bytes(text: str, limit: int) -> str:
    """Return the end of the text that fits into `limit` bytes of UTF-8."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return _drop_partial_character(data[-limit:], is_cut=True).decode("utf-8", "replace")
