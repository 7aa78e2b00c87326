"""Words counted in many pieces of a text at once, and added up when the last piece is done.

    count ┐
    count ┼─► total
    count ┘

jobforge dev examples/workflows/mapreduce.py
and, in another terminal, python examples/workflows/mapreduce.py
"""

from collections import Counter

from jobforge import BatchHandle, Context, JobForge

jf = JobForge()


@jf.job
def count(text: str) -> dict[str, int]:
    return dict(Counter(text.split()))


@jf.job
def total(ctx: Context) -> dict[str, int]:
    """The callback of a batch has the batch's jobs as its parents."""
    words: Counter[str] = Counter()
    for counted in ctx.parents.results:
        words.update(counted)
    return dict(words.most_common(3))


def count_words(pages: list[str]) -> BatchHandle:
    with jf.batch(name="words", on_success=total.args()) as batch:
        for page in pages:
            batch.add(count.args(page))
    return batch.handle


if __name__ == "__main__":
    with jf.tenant("acme"):
        print(count_words(["to be or not", "to be", "that is"]).wait(timeout=30).counts)
