"""State that the server keeps for remote workers."""
