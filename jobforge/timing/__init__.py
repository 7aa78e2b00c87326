"""Pauses between repeated failures, and caches whose entries expire."""
