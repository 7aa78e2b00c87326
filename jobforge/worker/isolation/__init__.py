"""A process for each job.

    worker ── runner ── zygote_client ══socket══ zygote ──fork──► child ── the handler
                └─ job_process (one run) ════════socket, pipes════┘

The worker's side is runner.py, with one job_process.py for each run; zygote.py and child.py are
processes of their own. What a process may take, and how all of it is ended, the others have.
"""
