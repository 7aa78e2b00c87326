"""JobForge: a job server that is a set of SQL functions in Postgres."""

__version__ = "0.1.0"
