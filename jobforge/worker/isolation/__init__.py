"""Process isolation: one process per job.

    worker ── runner ── zygote_client ══socket══ zygote ──fork──► child ── the handler
                └─ job_process (one run) ════════socket, pipes════┘

In the worker, runner.py owns one JobProcess (job_process.py) for each run. zygote.py starts
the zygote and fork_server.py serves the worker's requests in it; child.py runs in the job's
process. The remaining modules set limits and confinement, and kill what jobs leave behind.
"""
