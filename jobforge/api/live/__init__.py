"""Live stream for the dashboard and clients, by server-sent events."""
