"""The process itself: its environment, its credentials, its signals."""
