"""For tests of applications: real jobs on a real Postgres, in a database for each test.

The fixture `jf_test` of the pytest plugin gives a `Kit`.
"""

from jobforge.testing.database import EnqueuedJob
from jobforge.testing.drain import Drained, Ran
from jobforge.testing.kit import Kit
from jobforge.testing.notes import Notes

__all__ = ["Drained", "EnqueuedJob", "Kit", "Notes", "Ran"]
