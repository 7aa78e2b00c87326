"""Webhook signatures, verified by the library that receivers use."""

import base64
from uuid import uuid4

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from jobforge.security.webhook_secrets import generate_webhook_id
from jobforge.security.webhook_signature import make_secret, secret_text, sign_headers


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_body_can_be_verified_with_each_secret_that_signed_it(text: str) -> None:
    secrets = [make_secret(), make_secret()]
    body = text.encode()
    headers = sign_headers(uuid4(), body, secrets)
    for secret in secrets:
        receiver = standardwebhooks.Webhook(secret_text(secret))
        receiver.verify(body, headers, json_parse=False)
    stranger = standardwebhooks.Webhook(secret_text(make_secret()))
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        stranger.verify(body, headers, json_parse=False)


def test_id_and_time_are_signed_too() -> None:
    secret = make_secret()
    receiver = standardwebhooks.Webhook(secret_text(secret))
    headers = sign_headers(uuid4(), b"{}", [secret])
    for name, value in (("webhook-id", "msg_other"), ("webhook-timestamp", "1")):
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            receiver.verify(b"{}", {**headers, name: value})


def test_secrets_are_32_random_bytes_in_the_standard_format() -> None:
    first, second = secret_text(make_secret()), secret_text(make_secret())
    assert first != second
    assert len(base64.b64decode(first.removeprefix("whsec_"))) == 32


def test_ids_of_endpoints_sort_by_creation_time() -> None:
    made = [generate_webhook_id() for _ in range(3)]
    assert {one.version for one in made} == {7}
    assert sorted(one.hex[:12] for one in made) == [one.hex[:12] for one in made]
