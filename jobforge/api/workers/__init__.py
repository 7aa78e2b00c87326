"""What the server keeps about remote workers."""
