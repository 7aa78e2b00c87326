"""What type checkers must refuse: every line that ends in `# error`, and no other."""

from jobforge import Context, JobForge

jf = JobForge()


@jf.job
async def send(ctx: Context, to: str, *, copy: bool = False) -> str:
    return f"{ctx.job_id}{to}{copy}"


@jf.job(queue="mail")
def add(left: int, right: int = 1) -> int:
    return left + right


@jf.job(isolation="thread")  # error
def odd() -> None: ...


@jf.job(ques="mail")  # error
def misspelt() -> None: ...


send.enqueue()  # error
send.enqueue(1)  # error
send.enqueue("ada", copy="yes")  # error
send.enqueue("ada", tenant="acme")  # error
send.enqueue(ctx=None, to="ada")  # error
send.using(tenant=5).enqueue("ada")  # error
send.using(tennant="acme").enqueue("ada")  # error
send.using(key="k", on_conflict="ignore").enqueue("ada")  # error
send.using(key="k").enqueue(too="ada")  # error
send("ada")  # error
add.enqueue("1")  # error
add.enqueue(1, 2, 3)  # error
add.args("1")  # error
add.enqueue_many([send.args("ada")])  # error
number: str = add.enqueue(1).result()  # error
add.enqueue(1).result(timeout="soon")  # error


async def wait() -> None:
    number: int = await (await send.aenqueue("ada")).aresult()  # error
    assert number
    await add.aenqueue(left="1")  # error
