"""A worker with one job that has many processes, to be killed. It prints its zygote and the job's
mark.
"""

import sys

from integration.isolation_rig import IsolationRig


def main() -> None:
    rig = IsolationRig(target=sys.argv[1])

    async def wait() -> None:
        started = await rig.start("multiply", processes=3).wait_for_note()
        print(rig.runner.zygote_pid, started.mark, flush=True)  # noqa: T201 - output for the test
        await started.report()

    rig.run_in_loop(wait())


if __name__ == "__main__":
    main()
