"""Count how many jobs held the slots of a cap at once, from what each transaction could see.

A trigger records every start and end of a run, with the transaction and its snapshot at that
moment. It takes no lock and draws no number that others wait for, so it does not order what the
engine left unordered. A sequence number would not help either: it is drawn before the commit that
it should order.

The count after a transaction t that started jobs is the sum of: the jobs that t's snapshot shows as
started and not ended, t's own starts, and the starts of every transaction that saw t as little as t
saw it. Suppose that more jobs than that ran at some instant, and take the last of their starts to
commit: each of the others committed before it, so it is either visible, or neither transaction sees
the other; and no end of these runs is visible. So the count can only be too high, and it is exact
for claims that a lock serializes.
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
create table public.cap_usage (
    n bigint generated always as identity, -- orders the rows of one transaction only
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
    insert into public.cap_usage (xid, seen, change, tenant_id, definition, queue, limit_key)
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
    """The changes of one transaction to a group, and its last snapshot when it made one."""

    xid: int
    seen: str
    starts: int = 0
    ends: int = 0
    first: int = field(init=False)  # all lower transactions are visible
    past: int = field(init=False)  # this and all higher transactions are invisible
    unseen: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        first, past, unseen = self.seen.split(":")
        self.first, self.past = int(first), int(past)
        self.unseen = frozenset(int(xid) for xid in unseen.split(",") if xid)

    def sees(self, other: "_Transaction") -> bool:
        return other.xid < self.past and other.xid not in self.unseen


class CapUsage:
    """The record of one test database, from its creation on."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        conn.execute(_INSTALL)

    def most(self, *subject: str) -> int:
        """Return the highest count of any group; jobs with equal values in these columns share a
        group.
        """
        return max(self._groups(*subject).values())

    def most_of(self, column: str, value: str) -> int:
        """Return the highest count of the jobs that have this value in this column."""
        return self._groups(column)[value,]

    def _groups(self, *subject: str) -> dict[tuple[Any, ...], int]:
        rows = self._conn.execute(
            "select xid::text::bigint as number, seen::text as snapshot, * from public.cap_usage "
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
    # For each index, the lowest number of the transactions that are not visible from there on.
    first = [*accumulate((t.first for t in reversed(transactions)), min)][::-1]
    most = 0
    for t in transactions:
        if not t.starts:
            continue
        place = bisect_left(xids, t.first)
        count = held[place] + (t.starts - t.ends if t.xid >= t.first else 0)
        # Each later transaction of this loop sees t, and t does not see it.
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
