"""Immutable data, one module per subject; no behavior except conversion from and to JSON."""
