"""The recipes of docs/howto/recipes.md have the effects that the page describes."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from jobforge.testing import Kit
from jobforge.types.jobs import State

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "recipes.md"


@pytest.fixture
def recipes(jf_test: Kit) -> Iterator[Any]:
    """The names that the page defines, on the test's database."""
    names: dict[str, Any] = {"__name__": "recipes"}
    text = PAGE.read_text("utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        exec(block, names)  # noqa: S102 - the page is part of the project
    jf_test.tenant("acme", timezone="Europe/Berlin")
    jf_test.use(names["jf"])
    return SimpleNamespace(**names)


@pytest.fixture
def shop(jf_test: Kit) -> Iterator["psycopg.Connection[Any]"]:
    with psycopg.connect(jf_test.url, autocommit=True) as conn:
        conn.execute("create table users (email text unique)")
        conn.execute("create table invoices (id integer, settled boolean default false)")
        conn.execute("insert into invoices values (7)")
        yield conn


def _results(jf_test: Kit, definition: str) -> list[Any]:
    ran = jf_test.drain(raise_errors=True).jobs
    return [
        each.result
        for each in ran
        if each.job.definition == definition and each.state is State.SUCCEEDED
    ]


@pytest.mark.usefixtures("shop")
def test_a_sign_up_that_fails_sends_no_mail(recipes: Any, jf_test: Kit) -> None:
    recipes.sign_up("ada@example.com")
    with pytest.raises(psycopg.errors.UniqueViolation):
        recipes.sign_up("ada@example.com")
    assert _results(jf_test, "send_mail") == ["Welcome, to ada@example.com"]


def test_the_nightly_report_runs_at_the_tenants_night(recipes: Any, jf_test: Kit) -> None:
    del recipes
    jf_test.travel(hours=24)
    assert len(_results(jf_test, "nightly_report")) == 1


def test_a_parent_adds_up_what_its_children_counted(recipes: Any, jf_test: Kit) -> None:
    recipes.count_all.enqueue(["one", "two words", "three more words"])
    assert _results(jf_test, "count_all") == [6]


def test_calls_have_a_limit_for_each_tenant(recipes: Any, jf_test: Kit) -> None:
    recipes.sync(1)
    (job,) = jf_test.assert_enqueued("sync_contact", count=1)
    settings = recipes.sync_contact.registration()
    assert settings["rate_limit_per_key"] == 10
    assert job.tenant == "acme"
    assert jf_test.drain().succeeded == 1


def test_an_order_is_charged_once(recipes: Any, jf_test: Kit) -> None:
    recipes.pay(1, 500)
    recipes.pay(1, 500)
    assert _results(jf_test, "collect") == ["receipt 1: 500"]
    jf_test.assert_enqueued("send_mail", count=1, subject="receipt 1: 500")


def test_an_order_without_a_price_is_dead_at_once(recipes: Any, jf_test: Kit) -> None:
    recipes.pay(2, 0)
    assert jf_test.drain().dead == 1


def test_an_article_is_published_when_it_is_approved(recipes: Any, jf_test: Kit) -> None:
    recipes.publish.enqueue(7)
    recipes.review(7, approved=True)  # before the job waits
    assert _results(jf_test, "publish") == ["published"]


def test_an_article_is_rejected_when_it_is_not_approved(recipes: Any, jf_test: Kit) -> None:
    recipes.publish.enqueue(7)
    jf_test.drain(with_scheduled=False)
    recipes.review(7, approved=False)
    assert _results(jf_test, "publish") == ["rejected"]


def test_an_article_without_a_review_is_not_published(recipes: Any, jf_test: Kit) -> None:
    recipes.publish.enqueue(7)
    assert _results(jf_test, "publish") == ["not reviewed in time"]


def test_a_conversion_reports_its_progress(recipes: Any, jf_test: Kit) -> None:
    recipes.convert.enqueue(2)
    assert _results(jf_test, "convert") == [2]
    assert [note["done"] for note in jf_test.notes.progress] == [1, 2]


def test_changes_of_one_product_become_one_job_with_the_last_revision(
    recipes: Any, jf_test: Kit
) -> None:
    for revision in range(1, 4):
        recipes.save(7, revision)
    recipes.save(8, 1)
    assert sorted(_results(jf_test, "index_product")) == [1, 3]


def test_a_newsletter_is_enqueued_whole_and_reports_its_end(recipes: Any, jf_test: Kit) -> None:
    addresses = [f"reader-{number}@example.com" for number in range(20)]
    recipes.send_newsletter(addresses)
    assert len(_results(jf_test, "send_mail")) == 20
    recipes.send_newsletter_and_report(addresses)
    assert _results(jf_test, "report_newsletter") == ["newsletter sent"]


def test_an_invoice_is_settled_with_its_job(
    recipes: Any, jf_test: Kit, shop: "psycopg.Connection[Any]"
) -> None:
    jf_test.secrets["shop_database_url"] = jf_test.url
    recipes.settle.enqueue(7)
    assert jf_test.drain(raise_errors=True).succeeded == 1
    assert shop.execute("select settled from invoices").fetchall() == [(True,)]
