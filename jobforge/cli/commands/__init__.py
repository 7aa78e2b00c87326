"""One module per command or command group. Only `db` imports another one, `logins`."""
