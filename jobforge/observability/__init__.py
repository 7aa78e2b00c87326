"""Log lines, metrics and traces."""
