"""Frozen data, one module for each subject. No behavior beyond reading and writing JSON."""
