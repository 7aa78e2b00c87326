"""A job whose result is the sales of a day, as rows for a report. See README.md.

Run it: jobforge dev examples/reports/app.py
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
    """Return the sales. JobForge keeps a result of more than 10,000 sales in the artifact store."""
    # Customers choose their names, and one name is a formula for spreadsheet programs.
    customers = ("Ada", "Grace", '=HYPERLINK("https://evil.example")')
    return [Sale(number, customers[number % 3], total=number * 1.5) for number in range(count)]
