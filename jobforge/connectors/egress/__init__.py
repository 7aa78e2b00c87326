"""The only way out for what tenants ask for: an HTTP client that reaches public addresses alone.

    url.py        a URL in the one spelling that cannot be misread, or a refusal
    addresses.py  which addresses nobody may reach
    policy.py     what the operator allows and forbids on top
    backend.py    resolves once, checks every answer, connects to what was checked
    client.py     requests with deadlines, limits and checked redirects

docs/connectors.md has the rules in the words of those who operate it.
"""

from jobforge.connectors.egress.client import (
    EgressClient,
    EgressRequest,
    EgressResponse,
    open_egress,
)
from jobforge.connectors.egress.headers import check_headers
from jobforge.connectors.egress.policy import Policy, policy_from_config
from jobforge.connectors.egress.url import Destination, read_url

__all__ = [
    "Destination",
    "EgressClient",
    "EgressRequest",
    "EgressResponse",
    "Policy",
    "check_headers",
    "open_egress",
    "policy_from_config",
    "read_url",
]
