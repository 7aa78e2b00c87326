"""Secrets of the process and of tenants, API keys, secrets and signatures of webhooks."""
