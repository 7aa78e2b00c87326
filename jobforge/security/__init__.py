"""Secrets of the process and of tenants, API keys, and webhook secrets and signatures."""
