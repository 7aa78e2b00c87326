"""Redaction: what is hidden, what is not, and that redacting is safe anywhere."""

import base64
import html
import json
import sys
from collections.abc import Iterator
from decimal import Decimal
from types import FrameType
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobforge import redact as redaction
from jobforge.redact import (
    CURRENT_SCOPE,
    MARKER,
    RedactionScope,
    assignments,
    is_secret_name,
    redact,
    redact_tail,
    redact_text,
    register_secret,
    shapes,
)
from jobforge.redact.registry import Registry


@pytest.fixture(autouse=True)
def scope() -> Iterator[RedactionScope]:
    """Secrets registered here belong to a job that has just started."""
    scope = RedactionScope()
    token = CURRENT_SCOPE.set(scope)
    yield scope
    CURRENT_SCOPE.reset(token)


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "passwd",
        "pwd",
        "db_password",
        "DBPASSWORD",
        "PGPASSWORD",
        "passwordConfirmation",
        "password2",
        "secret",
        "client-secret",
        "clientSecret",
        "secret_id",
        "AWS_SECRET_ACCESS_KEY",
        "token",
        "tokens",
        "accessToken",
        "ACCESSTOKEN",
        "x-amz-security-token",
        "api_key",
        "apikey",
        "apiKey",
        "APIKey",
        "X-Api-Key",
        "api.key",
        "Authorization",
        "proxy-authorization",
        "cookie",
        "Set-Cookie",
        "setCookie",
        "private_key",
        "privateKey",
        "credential",
        "aws_credentials",
        "dsn",
        "SENTRY_DSN",
        "auth",
        "session_id",
        "sessionid",
        "connectionString",
        "account_key",
        "jwt",
        "otp",
        "cvv",
    ],
)
def test_a_value_with_a_secret_name_is_hidden(name: str) -> None:
    assert redact({name: "x", "other": "y"}) == {name: MARKER, "other": "y"}


@pytest.mark.parametrize(
    "name",
    [
        "tokenize",
        "tokenizer",
        "secretary",
        "passwordless",
        "author",
        "authority",
        "auth_method",
        "max_tokens",
        "prompt_tokens",
        "token_type",
        "token_count",
        "token_url",
        "secret_name",
        "password_expires_at",
        "password_policy",
        "idempotency_key",
        "limit_key",
        "key",
        "public_key",
        "compass",
        "passenger",
        "cookiecutter",
        "keyboard",
        "",
        "123",
    ],
)
def test_a_value_with_another_name_is_shown(name: str) -> None:
    assert redact({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "value", [1234, 1.5, ["x"], {"x": "y"}, ("x",), Decimal(1), b"x", object()]
)
def test_under_a_secret_name_every_kind_of_value_is_hidden(value: Any) -> None:
    assert redact({"password": value}) == {"password": MARKER}


@pytest.mark.parametrize("value", [None, True, False, ""])
def test_the_absence_of_a_secret_is_shown(value: Any) -> None:
    assert redact({"password": value}) == {"password": value}


def test_secrets_are_found_at_any_depth() -> None:
    assert redact({"a": [{"b": {"apiKey": "x"}}, ("y", {"token": 1})]}) == {
        "a": [{"b": {"apiKey": MARKER}}, ["y", {"token": MARKER}]]
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"name": "Authorization", "value": "x"}, {"name": "Authorization", "value": MARKER}),
        ({"key": "DB_PASSWORD", "value": "x"}, {"key": "DB_PASSWORD", "value": MARKER}),
        ({"name": "LANG", "value": "x"}, {"name": "LANG", "value": "x"}),
        ([["Cookie", "x"], ["Accept", "y"]], [["Cookie", MARKER], ["Accept", "y"]]),
        ([(b"authorization", b"x")], [["authorization", MARKER]]),
    ],
)
def test_a_name_may_be_next_to_its_value(value: Any, shown: Any) -> None:
    assert redact(value) == shown


def test_a_value_that_is_not_secret_keeps_its_value_and_type() -> None:
    job = UUID(int=7)
    value = {"n": 1, "f": 1.5, "t": True, "z": None, "l": [1, "a"], "id": job}
    assert redact(value) == value


def test_a_value_that_json_cannot_contain_becomes_a_string() -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError

    assert redact({1: b"a\xff", "b": Unprintable(), "c": Decimal("1.5")}) == {
        "1": "a\\xff",
        "b": "<Unprintable>",
        "c": "1.5",
    }


def test_infinite_nesting_is_cut_off() -> None:
    endless: list[Any] = ["password=x"]
    endless.append(endless)
    text = json.dumps(redact(endless))
    assert "password=x" not in text
    assert MARKER in text


def test_a_secret_in_the_name_of_a_field_is_hidden() -> None:
    assert redact({"Bearer hunter2hunter2": 1}) == {f"Bearer {MARKER}": 1}


# Each text, and the part that must be removed.
GIVEN_AWAY = [
    ("password=hunter2", "hunter2"),
    ("host=db password='hun ter2' user=ada", "hun ter2"),
    ("DB_PASSWORD=hunter2\nPATH=/bin", "hunter2"),
    ("Password = hunter2, next", "hunter2"),
    ("login(password=hunter2)", "hunter2"),
    ("password=it's1234 x", "s1234"),
    ("password=a&b", "a&"),
    ('{"password": "hunter2"}', "hunter2"),
    ('{"password": "hun\\"ter2", "a": 1}', "ter2"),
    ('{"password": "hunter2\\\\", "a": "b"}', "hunter2"),
    ('{"pin": 1, "otp":123456,"a":"b"}', "123456"),
    (r'"{\"password\": \"hunter2\"}"', "hunter2"),
    (r'"{\"password\": \"hun\\\"ter2\"}"', "ter2"),
    (r"{\\\"password\\\": \\\"hunter2\\\"}", "hunter2"),
    ("{'token': 'hunter2'}", "hunter2"),
    ("{'token': b'hunter2'}", "hunter2"),
    ('"tokens": ["hunter2", "x"], "a": 1', "hunter2"),
    ('"tokens": [\n  "x",\n  "hunter2"\n], "a": 1', "hunter2"),
    ('"credentials": {"user": {"name": "hunter2"}}', "hunter2"),
    ("credentials=[x, hunter2", "hunter2"),
    ("{:password=>'hunter2'}", "hunter2"),
    ("password: hunter2", "hunter2"),
    ("  - password: correct horse battery\nuser: ada", "battery"),
    ("failed: password: hunter2, user ada", "hunter2"),
    ("got token: abc123def456", "abc123def456"),
    ("api_key=hunter2", "hunter2"),
    ("X-Api-Key: hunter2", "hunter2"),
    ("Authorization: Bearer hunter2 more", "hunter2"),
    ("Authorization: Basic aHVudGVyMg==", "aHVudGVyMg"),
    ("authorization=Token hunter2", "hunter2"),
    ("curl -H 'Authorization: Bearer hunter2' https://example.com", "hunter2"),
    ("Cookie: theme=dark; sid=hunter2", "hunter2"),
    ("Set-Cookie: sid=hunter2; Path=/", "hunter2"),
    ("sent Bearer hunter2hunter2", "hunter2"),
    ("sent basic aHVudGVyMg==", "aHVudGVyMg"),
    ("https://example.com/?token=hunter2&x=1", "hunter2"),
    ("mysql --password hunter2 --user ada", "hunter2"),
    ("run --api-token=hunter2", "hunter2"),
    ("alter role ada password 'hun ter2'", "ter2"),
    ("<password>hun ter2</password>", "ter2"),
    ('os.environ["API_TOKEN"] = "hunter2"', "hunter2"),
    ('password="hunter2 was cut', "hunter2"),
    ('[["Cookie", "sid=hunter2"], ["Accept", "x"]]', "hunter2"),
    (r'"[[\"Cookie\", \"sid=hunter2\"]]"', "hunter2"),
    ("[('authorization', 'hunter2')]", "hunter2"),
    ("[(b'authorization', b'hunter2')]", "hunter2"),
    ('{"name": "X-Auth-Token", "value": "hunter2"}', "hunter2"),
    ("{'name': 'DB_PASSWORD', 'value': 'hunter2'}", "hunter2"),
    ('{"name": "DB_PASSWORD",\n "value": "hunter2"}', "hunter2"),
    ("pin\n  Bad [type=int, input_value='hunter2', input_type=str]", "hunter2"),
    ("[type=int, input_value={'a': 1, 'pass...hunter2'}, input_type=dict]", "hunter2"),
    ("postgresql://ada:hunter2@db/app", "hunter2"),
    ("postgresql://ada:hun@ter2/x@db/app", "ter2"),
    ("redis://:hunter2@cache:6379/0", "hunter2"),
    ("amqp://a:hunter2@x,amqp://b:hunter2@y", "hunter2"),
    ('{"url":"https://a:hunter2@x"}', "hunter2"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "c2lnbmF0dXJl"),
    (r"a\neyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "c2lnbmF0dXJl"),
    ("AKIAIOSFODNN7EXAMPLE", "EXAMPLE"),
    ("AIzaSyA1234567890123456789012345678901234", "SyA1234"),
    ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "abcdef"),
    ("github_pat_11ABCDEFG0abcdefghijkl_mnop", "11ABC"),
    ("glpat-abcdefghij0123456789", "abcdef"),
    ("sk_" + "live_abcdefghijklmnop", "abcdef"),
    ("rk_test_abcdefghijklmnop", "abcdef"),
    ("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "C2FVs"),
    ("xoxb-" + "123456789012-abcdefghijkl", "abcdef"),
    ("https://hooks.slack.com/services/T0/B0/hunter2", "hunter2"),
    ("sk-proj-abcdefghijkl0123456789", "abcdef"),
    ("SG.abcdefghijkl.mnopqrstuvwx", "mnop"),
    ("jf_live_ab12cd34_0123456789abcdefghijklmnop", "0123456789"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----", "MIIE"),
    ("-----BEGIN PRIVATE KEY-----\nMIIE\nabcd", "abcd"),
    (r'"-----BEGIN EC PRIVATE KEY-----\nMIIE\nabcd"', "abcd"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQdG\n-----END PGP PRIVATE KEY BLOCK-----", "lQdG"),
]


@pytest.mark.parametrize(("text", "secret"), GIVEN_AWAY)
def test_a_secret_within_a_text_is_hidden(text: str, secret: str) -> None:
    assert secret in text
    assert secret not in redact_text(text)
    assert MARKER in redact_text(text)


@pytest.mark.parametrize("text", [text for text, _ in GIVEN_AWAY])
def test_redacting_again_changes_nothing(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2 user=ada", f"password={MARKER} user=ada"),
        ('{"password": "x", "a": 1}', f'{{"password": "{MARKER}", "a": 1}}'),
        ('"tokens":["x"],"user":"ada"', f'"tokens":{MARKER},"user":"ada"'),
        ('{"otp":123456,"a":1}', f'{{"otp":{MARKER},"a":1}}'),
        ("postgresql://ada:x@db/app", f"postgresql://ada:{MARKER}@db/app"),
        ("Cookie: a=b; c=d\nAccept: */*", f"Cookie: {MARKER}\nAccept: */*"),
        ("?token=x&user=ada", f"?token={MARKER}&user=ada"),
        ("--password x --user ada", f"--password {MARKER} --user ada"),
    ],
)
def test_text_around_a_secret_is_kept(text: str, shown: str) -> None:
    assert redact_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "we tokenize the secretary's passwordless letter",
        "tokenizer=bert-base passwordless: yes secretary: Ann",
        "invalid password for user ada",
        "KeyError: 'password'",
        'fields: ["token", "name", "email"] and ("password", "user", 1)',
        "the password is wrong; a secret, a token, a cookie",
        "unexpected token: expected a comma",
        "max_tokens=4096 token_type=bearer token_count: 17",
        "password=None token=null secret=\npassword: true",
        "a bearer certificate, a Basic understanding, basic questions.",
        "https://example.com:8080/path?email=ada@example.org",
        "https://example.com/@ada and ada@example.org: hello",
        "2026-11-15T10:00:00Z 10:30 a:b key=value",
        "018f4a2e-7b5c-7c3a-9d10-aabbccddeeff 5f3759df",
        "author=ada authority=x auth_method=password",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "task sk-circle-fade-dot-item pypi-server npm_config",
        "def login(user, password: str, token: str | None = None)",
    ],
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert redact_text(text) == text


def test_a_registered_value_is_hidden_everywhere() -> None:
    register_secret("Tr0ub4dor")
    assert redact_text("xTr0ub4dorx Tr0ub4dor") == f"x{MARKER}x {MARKER}"
    assert redact({"note": ["Tr0ub4dor"]}) == {"note": [MARKER]}


def test_a_registered_value_is_hidden_when_it_is_a_number() -> None:
    register_secret("48291377")
    assert redact({"n": 48291377, "m": 48291378}) == {"n": MARKER, "m": 48291378}


@pytest.mark.parametrize(
    "written",
    [
        json.dumps('p"ä/\n+ wörd'),
        json.dumps('p"ä/\n+ wörd', ensure_ascii=False),
        json.dumps(json.dumps('p"ä/\n+ wörd')),
        repr('p"ä/\n+ wörd'),
        quote('p"ä/\n+ wörd'),
        quote('p"ä/\n+ wörd', safe="").lower(),
        'p"ä/\r\n+ wörd',
        'p"ä/\n+ wörd'.encode().hex(),
        *(
            base64.b64encode(before + 'p"ä/\n+ wörd'.encode() + b"!").decode()
            for before in (b"", b"1", b"12", b"user:")
        ),
        base64.urlsafe_b64encode('p"ä/\n+ wörd'.encode()).decode(),
    ],
)
def test_a_registered_value_is_hidden_in_every_form(written: str) -> None:
    assert redact_text(f"<{written}>") == f"<{written}>"
    register_secret('p"ä/\n+ wörd')
    shown = redact_text(f"<{written}>")
    assert MARKER in shown
    # Base64 mixes the value's ends with the text next to it: up to three characters of that stay.
    assert len(shown.replace(MARKER, "")) <= len("<>") + 3 + len("==") + 8


@pytest.mark.parametrize(
    "written",
    [
        json.dumps("k&<ä>'\"/wörd").replace("/", "\\/"),  # PHP
        json.dumps("k&<ä>'\"/wörd", ensure_ascii=False).replace("/", "\\/"),
        '"k\\u0026\\u003cä\\u003e\'\\"/wörd"',  # Go
        html.escape("k&<ä>'\"/wörd", quote=False),
        html.escape("k&<ä>'\"/wörd"),
        "k&amp;&lt;ä&gt;&#39;&#34;/wörd",  # Jinja, Go
        "k&amp;&lt;ä&gt;&#039;&quot;/wörd",  # PHP
        repr("k&<ä>'\"/wörd".encode()),
        ascii("k&<ä>'\"/wörd"),
    ],
)
def test_a_registered_value_is_hidden_as_other_languages_write_it(written: str) -> None:
    assert redact_text(f"<{written}>") == f"<{written}>"
    register_secret("k&<ä>'\"/wörd")
    shown = redact_text(f"<{written}>")
    assert shown.replace(MARKER, "").strip("<>b\"'") == ""


@pytest.mark.parametrize("before", range(52))
def test_a_registered_value_is_hidden_in_wrapped_base64(before: int) -> None:
    secret = "correct horse battery staple"
    register_secret(secret)
    written = base64.encodebytes(b"x" * before + secret.encode() + b"." * 50).decode()
    for text in (written, json.dumps(written), written.replace("\n", "\r\n    ")):
        shown = redact_text(text)
        assert MARKER in shown, text
        left = base64.b64decode(shown.partition(MARKER)[0].strip('"').replace("\\n", "") + "===")
        assert b"cor" not in left


def test_lines_that_only_begin_like_a_registered_value_stay() -> None:
    register_secret("hunter-two")
    text = "hunter-\nthree\nhunt\n\ner-two hunter-tw\no"
    assert redact_text(text) == f"hunter-\nthree\nhunt\n\ner-two {MARKER}"


@pytest.mark.parametrize(
    "value", ["", "abc", "worker", "hunter2", "postgres", "Password", "UNDEFINED", "redacted"]
)
def test_a_value_that_would_occur_in_ordinary_text_is_not_registered(value: str) -> None:
    assert not register_secret(value)
    text = f"{value} worker hunter2 {MARKER}"
    assert redact_text(text) == text


@pytest.mark.parametrize("value", ["hunter-2", "12345678", "deadbeefdead", "correcthorse"])
def test_a_value_of_sufficient_length_is_registered(value: str) -> None:
    assert register_secret(value)
    assert redact_text(f"<{value}>") == f"<{MARKER}>"


@pytest.mark.attack("redaction")
def test_names_of_fields_are_never_compared_with_registered_values() -> None:
    register_secret("worker_id")
    assert redact({"worker_id": 7, "at": "worker_id"}) == {"worker_id": 7, "at": MARKER}


def test_the_number_of_keys_is_not_secret() -> None:
    counts = {"api_keys": 3, "tokens": 0, "secrets": 12}
    assert redact(counts) == counts
    hidden = {"api_keys": ["x"], "tokens": 123456789, "api_key": 3}
    assert redact(hidden) == dict.fromkeys(hidden, MARKER)


def test_the_value_registered_longest_ago_is_removed_first() -> None:
    registry = Registry(max_values=3)
    for number in range(3):
        registry.add(f"value-000{number}")
    registry.add("value-0000")  # used again
    registry.add("one-too-many")
    hidden = RedactionScope(registry).hide("value-0000 value-0001 value-0002 one-too-many")
    assert hidden == f"{MARKER} value-0001 {MARKER} {MARKER}"


def test_the_longer_of_two_registered_values_is_hidden_completely() -> None:
    register_secret("hunter-1")
    register_secret("hunter-1-and-2")
    assert redact_text("hunter-1-and-2 hunter-1") == f"{MARKER} {MARKER}"


SECRET = "Tr0ub4dor-and-3-more"


@pytest.mark.parametrize("kept", range(1, len(SECRET)))
def test_a_secret_that_is_cut_off_does_not_show_its_rest(kept: int) -> None:
    register_secret(SECRET)
    tail = f"{SECRET[-kept:]} was sent\nnext line"
    assert redact_tail(tail, is_cut=True) == "next line"


@pytest.mark.parametrize(
    "line",
    [
        'password="correct horse battery staple" x',
        "Cookie: a=1; b=2; c=3",
        "k=AKIAIOSFODNN7EXAMPLE",
    ],
)
def test_no_cut_through_a_line_shows_a_part_of_its_secret(line: str) -> None:
    for place in range(1, len(line)):
        assert redact_tail(f"{line[place:]}\nnext", is_cut=True) == "next"


def test_a_registered_value_of_several_lines_is_hidden_wherever_it_was_cut() -> None:
    secret = "first line of it\nsecond line of it\nthird line of it"
    register_secret(secret)
    for place in range(1, len(secret) - 3):
        assert redact_tail(f"{secret[place:]}\nnext\nlast", is_cut=True) in {"next\nlast", "last"}


def test_a_private_key_whose_beginning_was_cut_off_is_hidden() -> None:
    tail = "abcd\nMIIEowIBAAKCAQEA\nef+/==\n-----END RSA PRIVATE KEY-----\nnext"
    assert redact_tail(tail, is_cut=True) == "next"


def test_a_long_first_line_is_cut_at_a_secret_without_showing_it() -> None:
    line = " ".join(f"password=hunter{number}" for number in range(2000))
    shown = redact_tail(line, is_cut=True)
    assert "hunter" not in shown
    assert shown.endswith(f"password={MARKER}")


def test_half_a_character_at_the_cut_does_not_reveal_half_a_secret() -> None:
    secret = "ä-first line\nsecond line of it"
    register_secret(secret)
    assert redact_tail(f"�{secret[1:]}\nnext", is_cut=True) == "next"


def test_a_tail_that_was_not_cut_keeps_its_first_line() -> None:
    assert redact_tail("first password=x\nnext", is_cut=False) == f"first password={MARKER}\nnext"


# Parts of hostile and accidental texts.
PIECES = st.sampled_from(
    [
        *[
            "password",
            "token",
            "secret",
            "Authorization",
            "cookie",
            "--token",
            "api_key",
            "<password>",
            "eyJ",
            "AKIA",
        ],
        *(
            "=",
            ":",
            ": ",
            " ",
            "\n",
            '"',
            "'",
            "\\",
            "\\\\",
            "[",
            "]",
            "{",
            "}",
            "(",
            ",",
            "&",
            ">",
        ),
        *("://", "@", "a:b@c", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", MARKER),
        *("Bearer ", "Basic ", "ghp_", "0123456789abcdef", "x", "é", "\ud800", "\0", "%3D", "\\n"),
        "Tr0ub4dor",
    ]
)
TEXTS = st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=200)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_one_redaction_is_sufficient(text: str) -> None:
    register_secret("Tr0ub4dor")
    once = redact_text(text)
    assert "Tr0ub4dor" not in once
    assert redact_text(once) == once


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_any_value_can_be_redacted_repeatedly(value: Any) -> None:
    once = redact(value)
    assert redact(once) == once


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_redacting_a_cut_tail_never_fails(text: str) -> None:
    register_secret("Tr0ub4dor")
    assert "Tr0ub4dor" not in redact_tail(text, is_cut=True)


HOSTILE = [
    "password",
    "password=",
    'password="',
    'password="\\',
    '"token":[',
    "token=[",
    "token=[\n",
    "token=(\n",
    "a.token.",
    "token ",
    "--token ",
    "\\",
    '\\"',
    "eyJ",
    "eyJaaaaaaaaaaaa.",
    "://a:",
    "://a:b@",
    "bearer ",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN ",
    "AKIA",
    "ghp_",
    "Tr0u",
    "Tr0ub4do",
    "Tr0ub4dor",
    "Tr0u\n",
    "cookie: '",
    '["token",[',
    "['token','",
    "['token',\"'",
    '"token","value":[',
    "input_value=",
    "<password>",
    "A",
    " ",
    "\n",
]


@pytest.mark.attack("redaction")
@pytest.mark.parametrize("piece", HOSTILE)
def test_the_work_grows_linearly_with_the_text(piece: str) -> None:
    register_secret("Tr0ub4dor")
    small, large = (_work(piece * (size // len(piece))) for size in (8_000, 16_000))
    assert large <= 2.2 * small + 100


@pytest.mark.attack("redaction")
@pytest.mark.parametrize("piece", HOSTILE)
def test_a_long_hostile_text_is_processed_in_time(piece: str) -> None:
    # Work that grew with the square of the length would exceed the time limit of a test.
    register_secret("Tr0ub4dor")
    redact_tail(piece * (300_000 // len(piece)), is_cut=True)


def _work(text: str) -> int:
    """Return the number of Python calls and lines."""
    count = 0

    def trace(_: FrameType, __: str, ___: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        redact_text(text)
    finally:
        sys.settrace(before)
    return count


def test_a_long_name_is_judged_by_its_end() -> None:
    assert is_secret_name("x_" * 10_000 + "password")
    assert not is_secret_name("password" + "_x" * 10_000)


def test_the_pattern_for_numbers_matches_no_sign_of_a_secret() -> None:
    known = (*shapes._STARTS, *assignments._HINTS, "://", "input_value=", "basic", "-----BEGIN")  # noqa: SLF001 - signs of a secret
    assert not [each for each in known if redaction._FIGURES.fullmatch(each)]  # noqa: SLF001 - the pattern for numbers


def test_a_registered_value_is_hidden_in_a_short_text_that_was_shown_earlier() -> None:
    assert redact({"state": "47110815"}) == {"state": "47110815"}
    register_secret("47110815")
    shown = redact({"state": "47110815", "count": 47110815, "sum": 147110815})
    assert shown == {"state": MARKER, "count": MARKER, "sum": 147110815}
