"""Authentication and authorization: API keys, JWTs, cookies, roles and rate limits."""
