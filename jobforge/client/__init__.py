"""The engine over HTTP, for those who have a key and no database.

A call is a value that knows its function; routes.py says which route of the server does the same.
So whatever runs calls on a database runs them over HTTP, too: the app, the command line, a worker.
"""
