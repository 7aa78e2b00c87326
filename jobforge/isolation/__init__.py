"""A process for each job.

    worker ── isolated ── forkserver ══socket══ zygote ──fork──► child ── the handler
                 └─ process (one run) ═══════════socket, pipes════┘

The worker's side is isolated.py, with one process.py for each run; zygote.py and child.py are
processes of their own. What a process may take, and how all of it is ended, the others have.
"""
