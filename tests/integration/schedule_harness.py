"""Schedules of a test's database, a clock to move, and a scheduler that runs on demand."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from cluster import Clock, Connection, Database
from integration.call_setup import TENANT_A
from sql import engine

from jobforge import calls, db
from jobforge.scheduler import firing as schedules
from jobforge.types.triggers import Firing, FiringOutcome, Trigger, TriggerType


@dataclass(frozen=True, slots=True)
class ScheduleHarness:
    """`conn` has the superuser's login; the scheduler has a worker's login."""

    database: Database
    conn: Connection
    clock: Clock

    def add(self, cron: str = "0 * * * *", *, tenant: UUID = TENANT_A, **settings: Any) -> UUID:
        """Add and plan a schedule of definition `test`, in UTC unless `settings` say otherwise."""
        given = {"label": "a test", "definition": "test", "timezone": "UTC", "cron": cron}
        call = calls.create_trigger(TriggerType.SCHEDULE, {**given, **settings}, tenant_id=tenant)
        created = db.run(self.conn, call)
        self.fire_due()
        return created

    def travel_to_next(self, trigger_id: UUID, **beyond: float) -> datetime:
        """Move the clock to the next run, or beyond it; return the time of that run."""
        due = self.get(trigger_id).next_run_at
        assert due is not None
        amount = due + timedelta(**beyond) - self.clock.now()
        self.clock.travel(seconds=amount.total_seconds())
        return due

    def fire_due(self) -> int:
        """Fire all due schedules as a scheduler does; return the number of recorded firings."""
        return asyncio.run(self._fire_due())

    async def _fire_due(self) -> int:
        line = db.Database(self.database.url_as("worker_login")).create_link()
        recorded, has_more = 0, True
        while has_more:
            found = await schedules.fire_due_schedules(line)
            recorded, has_more = recorded + found.recorded, found.has_more
        await line.close()
        return recorded

    def get(self, trigger_id: UUID, tenant: UUID = TENANT_A) -> Trigger:
        return db.run(self.conn, calls.get_trigger(trigger_id, tenant_id=tenant))

    def edit(self, trigger_id: UUID, **changes: Any) -> None:
        db.run(self.conn, calls.edit_trigger(trigger_id, changes, tenant_id=TENANT_A))

    def firings(self, trigger_id: UUID, tenant: UUID = TENANT_A) -> list[Firing]:
        """Return the firings, earliest first."""
        listed = db.run(self.conn, calls.list_firings(trigger_id, limit=200, tenant_id=tenant))
        return listed[::-1]

    def outcomes(self, trigger_id: UUID) -> list[FiringOutcome]:
        return [firing.outcome for firing in self.firings(trigger_id)]

    def jobs(self, trigger_id: UUID) -> list[engine.Row]:
        """Return the unfinished jobs, oldest first."""
        return self.conn.execute(
            "select * from jobforge.jobs where source = 'schedule' and source_ref = %s order by id",
            [str(trigger_id)],
        ).fetchall()
