"""Map and reduce as a batch: count the words of many pages in parallel, then add up the counts.

    count ┐
    count ┼─► total
    count ┘

Run it: jobforge dev examples/workflows/mapreduce.py
In another terminal: python examples/workflows/mapreduce.py
"""

from collections import Counter

from jobforge import BatchHandle, Context, JobForge

jf = JobForge()


@jf.job
def count(text: str) -> dict[str, int]:
    return dict(Counter(text.split()))


@jf.job
def total(ctx: Context) -> dict[str, int]:
    """Add up the counts. The batch's jobs are the parents of this callback."""
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
