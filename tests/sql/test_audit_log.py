"""The audit log by month: its partitions, its pages, and how old months are dropped."""

from datetime import date, timedelta

from cluster import Clock, Connect, Connection
from sql.engine import call, call_for_value, count
from sql.test_retention import PARTITIONED, days, new_days, partitions, retain, today


def months(first: date, last: date) -> list[str]:
    """Return the first days of the months between two days."""
    return sorted({f"{day[:6]}01" for day in days(first, last)})


def test_the_audit_log_has_a_partition_for_each_month(conn: Connection, clock: Clock) -> None:
    now = today(clock)
    yesterday = now - timedelta(days=1)
    assert partitions(conn, "audit_log") == months(yesterday, now + timedelta(days=7))
    call(conn, "ensure_partitions", days=100)
    expected = months(yesterday, now + timedelta(days=100))
    assert partitions(conn, "audit_log") == expected
    for month in expected[1:]:
        clock.travel(days=(date.fromisoformat(month) - today(clock)).days)
        call(conn, "pause_queue", queue="default")
        assert count(conn, f"audit_log_{month}") == 1
    assert count(conn, "audit_log_default") == 0


def test_audit_entries_that_fell_into_the_default_partition_move_to_their_month(
    conn: Connection, clock: Clock
) -> None:
    clock.travel(days=100)
    written = f"audit_log_{today(clock):%Y%m}01"
    call(conn, "pause_queue", queue="default")
    assert count(conn, "audit_log_default") == 1
    clock.travel(days=100)
    call(conn, "ensure_partitions")
    assert (count(conn, "audit_log_default"), count(conn, written)) == (0, 1)


def test_a_reader_of_the_audit_log_does_not_block_partitions_of_other_tables(
    conn: Connection, connect: Connect, clock: Clock
) -> None:
    reader = connect(autocommit=False)
    call(reader, "list_audit")
    clock.travel(days=100)
    assert new_days(conn) == 9 * len(PARTITIONED)
    assert months(today(clock), today(clock))[0] not in partitions(conn, "audit_log")
    reader.rollback()
    assert call_for_value(conn, "ensure_partitions") > 0
    assert months(today(clock), today(clock))[0] in partitions(conn, "audit_log")


def test_the_audit_log_is_kept_for_a_year_or_for_the_configured_time(
    conn: Connection, clock: Clock
) -> None:
    """Whole months are dropped, each when its last day is old enough."""

    def act(action: str) -> tuple[str, date]:
        call(conn, "ensure_partitions")
        call(conn, action, queue="default")
        now = today(clock)
        return f"audit_log_{now:%Y%m}01", (now.replace(day=1) + timedelta(days=31)).replace(day=1)

    def dropped(**arguments: int) -> list[str]:
        return [name for name in retain(conn, **arguments)["partitions"] if "audit" in name]

    first, end = act("pause_queue")
    clock.travel(days=300)
    last, _ = act("resume_queue")
    clock.travel(days=(end - today(clock)).days + 364)
    assert first not in dropped()
    assert count(conn, "audit_log") == 2
    clock.travel(days=1)
    assert dropped()[-1] == first
    assert [row["action"] for row in call(conn, "list_audit")] == ["queue.resume"]
    assert last in dropped(audit_days=1)
    assert count(conn, "audit_log") == 0


def test_pages_of_the_audit_log_cover_all_months_in_order_of_id(
    conn: Connection, clock: Clock
) -> None:
    actions = ["pause_queue", "resume_queue"] * 3
    for action in actions:
        call(conn, "ensure_partitions")
        call(conn, action, queue="default")
        clock.travel(days=20)
    seen: list[str] = []
    before = None
    while page := call(conn, "list_audit", limit=4, before=before):
        seen += [row["action"] for row in page]
        before = page[-1]["id"]
    assert seen == ["queue.resume", "queue.pause"] * 3
    recent = {"after": (clock.now() - timedelta(days=50)).isoformat()}
    found = call(conn, "list_audit", filter=recent)
    assert [row["action"] for row in found] == ["queue.resume", "queue.pause"]
