"""Who calls, and what the caller may do: keys, tokens, cookies, roles, rate limits."""
