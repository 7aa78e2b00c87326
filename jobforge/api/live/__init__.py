"""The live stream of the dashboard and of clients, as server-sent events."""
