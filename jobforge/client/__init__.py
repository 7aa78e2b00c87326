"""The engine over HTTP, for clients with an API key and without database access.

A Call knows its SQL function; routes.py maps the function to a route of the server. So all code
that runs calls on a database also runs them over HTTP: the app, the command line, a worker.
"""
