"""Code that type checkers must refuse: every line that ends in `# error`, and no other."""

from jobforge import Context, Handle, JobForge

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


async def deliver(to: str) -> int:
    return len(to)


def measure(text: str) -> int:
    return len(text)


def durable(ctx: Context) -> None:
    ctx.step("measure", measure, 1)  # error
    ctx.step("measure", measure, text="x", more=1)  # error
    ctx.step(measure, "x")  # error
    text: str = ctx.step("measure", measure, "x")  # error
    assert text
    ctx.sleep("soon")  # error
    ctx.wait_for_event("paid")  # error
    ctx.wait_for_event("paid", {"order": [7]}, timeout=1)  # error
    ctx.enqueue(add, "1")  # error
    ctx.enqueue(measure, "x")  # error
    ctx.enqueue_many(add, [send.args("ada")])  # error
    numbers: list[str] = ctx.gather([ctx.enqueue(add, 1)])  # error
    assert numbers


async def adurable(ctx: Context) -> None:
    await ctx.step("deliver", deliver)  # error
    await ctx.step("measure", measure, "x")  # error
    text: str = await ctx.astep("deliver", deliver, "ada")  # error
    assert text
    await ctx.aenqueue(add)  # error


def workflows(ctx: Context) -> None:
    with jf.workflow("nightly") as wf:
        add.node("1")  # error
        add.using(after="first").node(1)  # error
        add.using(after=add.node(1), on_parent_failure="stop").node(1)  # error
        wf.workflow()  # error
        text: Handle[str] = add.node(1).handle  # error
        assert text
    with jf.batch(on_success=add) as batch:  # error
        batch.add(1)  # error
    ctx.workflow.add(add)  # error
