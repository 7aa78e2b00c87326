"""The worker in parts, each one thing that it does all the time; worker.py puts them together."""

from jobforge.worker.worker import Worker

__all__ = ["Worker"]
