"""A day's sales, and reports of them. See README.md.

jobforge dev examples/reports/app.py
"""

from dataclasses import dataclass

from jobforge import JobForge

jf = JobForge()


@dataclass
class Sale:
    number: int
    customer: str
    total: float


@jf.job
def sell(count: int) -> list[Sale]:
    """What was sold. More than ten thousand are too many for a row, and go into the store."""
    # Customers choose their names themselves, and one of them would like to be a formula.
    customers = ("Ada", "Grace", '=HYPERLINK("https://evil.example")')
    return [Sale(number, customers[number % 3], total=number * 1.5) for number in range(count)]
