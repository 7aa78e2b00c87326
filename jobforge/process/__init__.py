"""The operating system process: environment, credentials, signals."""
