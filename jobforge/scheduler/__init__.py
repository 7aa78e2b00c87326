"""The scheduler: makes jobs when their time has come, and when events say so."""

from jobforge.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
