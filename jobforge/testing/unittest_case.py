"""The test kit for unittest: a base class whose tests have a `Kit` in `self.jf_test`."""

import atexit
import os
import unittest
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from typing import ClassVar
from unittest.mock import patch
from uuid import uuid4

from jobforge.sdk.app import JobForge
from jobforge.testing.cluster import Postgres, hold_postgres
from jobforge.testing.kit import Kit, open_kit


class JobForgeTestCase(unittest.TestCase):
    """A TestCase with a separate database for each test.

    To use it with another base class, name this one first: `class T(JobForgeTestCase, Other)`.
    """

    jobforge_apps: ClassVar[Sequence[JobForge]] = ()
    """The apps under test."""
    jobforge_tenants: ClassVar[Sequence[str]] = ()
    """Slugs of the tenants that exist in every test."""

    jf_test: Kit

    def setUp(self) -> None:
        super().setUp()
        self.jf_test = self.enterContext(open_kit(_find_postgres()))
        # Processes that the test starts must connect to this database, never to another one.
        self.enterContext(patch.dict(os.environ, JOBFORGE_DATABASE_URL=self.jf_test.url))
        os.environ.pop("JOBFORGE_LISTEN_URL", None)
        for slug in self.jobforge_tenants:
            self.jf_test.tenant(slug)
        for app in self.jobforge_apps:
            self.jf_test.use(app)


@cache
def _find_postgres() -> Postgres:
    """Return the server of this process; it stops when the process exits."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(hold_postgres(uuid4().hex))
