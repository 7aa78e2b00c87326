"""Each function with many rows of the longest permitted JSON: no call fails or returns too much."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from attacks import Attempts
from cluster import connect_to, fresh_database
from sql.attack_arguments import Arguments, functions
from sql.long_json import fill_remaining_columns, is_public, valid_calls
from sql.many_values import plant_many_values
from sql.tenancy_attack import World
from sql.test_planted_json import TRY, answers, query_of

from jobforge.embedded import PostgresServer

LONGEST_ANSWER = 64 * 1024**2


@pytest.fixture(scope="module")
def world(server: PostgresServer) -> Iterator[World]:
    """One database for all calls: each is rolled back."""
    with fresh_database(server) as database, closing(connect_to(database.url)) as conn:
        world = World.make(database, conn)
        fill_remaining_columns(conn)
        conn.execute(TRY)
        yield world


@pytest.mark.attack("payloads")
@pytest.mark.timeout(300)
def test_many_permitted_values_fail_no_function(world: World, attempts: Attempts) -> None:
    calls = {
        what: (function.name, query_of(function, _with_largest_limit(arguments)))
        for function in functions(world.conn)
        if is_public(world.conn, function)
        for what, arguments in valid_calls(function, world.a, world.b)
    }
    before = answers(world.conn, calls)
    assert all(each.error is None or each.error.startswith("JF") for each in before.values())
    plant_many_values(world.conn, world.a)
    found = []
    for what, answer in answers(world.conn, calls).items():
        attempts(1)
        is_short = (answer.length or 0) <= LONGEST_ANSWER
        if answer.error != before[what].error or not is_short:
            found.append(f"{what}: {before[what]}, then {answer}")
    assert not found, "\n".join(found)


def _with_largest_limit(arguments: Arguments) -> Arguments:
    """Set the limit to the largest page that lists return."""
    return arguments | {"p_limit": "200"} if "p_limit" in arguments else arguments
