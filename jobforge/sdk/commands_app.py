"""The app of a worker that only serves the commands in its settings: it has no jobs in code."""

from jobforge.sdk.app import JobForge

jf = JobForge()
