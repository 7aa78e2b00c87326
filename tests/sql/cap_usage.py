"""How many jobs held the slots of a cap at once, proven from what each transaction could see.

A trigger notes every start and end of a run, with the transaction and its snapshot of the moment.
It takes no lock and draws no number that others wait for, so it puts nothing in order that the
engine left unordered; and no number would do: one is drawn before the commit that it should order.

The count after a transaction t that started jobs is what its snapshot shows as started and not
ended, and its own, and the starts of every transaction that saw t as little as t saw it. If more
than that many ran at some instant, take the last of their starts to commit: each of the others
committed before it, so it is seen, or neither sees the other; and no end of theirs is seen. So the
count errs upwards only, and it does not err for claims that take turns under a lock.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from cluster import Connection
from sql.engine import Row

_INSTALL = """
create table public.holders (
    n bigint generated always as identity, -- orders what one transaction did, nothing else
    xid xid8 not null,
    seen pg_snapshot not null,
    change integer not null,
    tenant_id uuid not null,
    definition text not null,
    queue text not null,
    limit_key text
);

create function public.note_holder() returns trigger
language plpgsql security definer
as $$
begin
    insert into public.holders (xid, seen, change, tenant_id, definition, queue, limit_key)
    values (pg_current_xact_id(), pg_current_snapshot(),
            case when old.state = 'running' then -1 else 1 end,
            old.tenant_id, old.definition, old.queue, old.limit_key);
    return null;
end $$;

create trigger holders_that_changed after update on jobforge.jobs
    for each row when ((old.state = 'running') <> (new.state = 'running'))
    execute function public.note_holder();
create trigger holders_that_went after delete on jobforge.jobs
    for each row when (old.state = 'running')
    execute function public.note_holder();
"""


@dataclass(slots=True)
class _Transaction:
    """What one transaction did to a group, and the last snapshot in which it did."""

    xid: int
    seen: str
    starts: int = 0
    ends: int = 0
    first: int = field(init=False)  # below it, every transaction is seen
    past: int = field(init=False)  # from it on, none is
    unseen: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        first, past, unseen = self.seen.split(":")
        self.first, self.past = int(first), int(past)
        self.unseen = frozenset(int(xid) for xid in unseen.split(",") if xid)

    def sees(self, other: "_Transaction") -> bool:
        return other.xid < self.past and other.xid not in self.unseen


class Holders:
    """The record of one test database, from its making on."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        conn.execute(_INSTALL)

    def most(self, *subject: str) -> int:
        """The highest count of any group; jobs alike in these columns share a group."""
        return max(self._groups(*subject).values())

    def most_of(self, column: str, value: str) -> int:
        """The highest count of the jobs that have this value in this column."""
        return self._groups(column)[value,]

    def _groups(self, *subject: str) -> dict[tuple[Any, ...], int]:
        rows = self._conn.execute(
            "select xid::text::bigint as number, seen::text as snapshot, * from public.holders "
            "order by n"
        ).fetchall()
        groups = defaultdict(list)
        for row in rows:
            groups[tuple(row[column] for column in subject)].append(row)
        return {group: _most(_transactions(rows)) for group, rows in groups.items()}


def _transactions(rows: Iterable[Row]) -> list[_Transaction]:
    made: dict[int, _Transaction] = {}
    for row in rows:
        number = row["number"]
        if number not in made or made[number].seen != row["snapshot"]:
            before = made.get(number)
            made[number] = _Transaction(
                number,
                row["snapshot"],
                before.starts if before else 0,
                before.ends if before else 0,
            )
        made[number].starts += row["change"] == 1
        made[number].ends += row["change"] == -1
    return sorted(made.values(), key=lambda transaction: transaction.xid)


def _most(transactions: Sequence[_Transaction]) -> int:
    xids = [transaction.xid for transaction in transactions]
    held = [0, *accumulate(t.starts - t.ends for t in transactions)]
    # From each place on, the lowest number below which all are seen.
    first = [*accumulate((t.first for t in reversed(transactions)), min)][::-1]
    most = 0
    for t in transactions:
        if not t.starts:
            continue
        place = bisect_left(xids, t.first)
        count = held[place] + (t.starts - t.ends if t.xid >= t.first else 0)
        # Whoever comes after this walk sees t, and t does not see them.
        while place < len(xids) and (xids[place] < t.past or first[place] <= t.xid):
            other = transactions[place]
            if other is not t:
                if t.sees(other):
                    count += other.starts - other.ends
                elif not other.sees(t):
                    count += other.starts
            place += 1
        most = max(most, count)
    return most
