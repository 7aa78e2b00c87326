"""Process isolation: one process per job.

    worker ── runner ── zygote_client ══socket══ zygote ──fork──► child ── the handler
                └─ job_process (one run) ════════socket, pipes════┘

In the worker, runner.py owns one JobProcess (job_process.py) for each run. zygote.py and child.py
are the code of the other two processes. The remaining modules set limits and confinement, and kill
what jobs leave behind.
"""
