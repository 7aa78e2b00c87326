"""The processes that the command line starts and supervises."""
