"""The Python API for applications: apps, definitions, jobs, workflows and batches."""
