"""The only HTTP client for requests of tenants; it reaches public addresses only.

    url.py        parses a URL into one unambiguous spelling, or refuses it
    addresses.py  which addresses are public
    policy.py     what the operator allows and forbids in addition
    backend.py    resolves once, checks every address, connects to a checked address
    client.py     requests with deadlines, limits and checked redirects

docs/connectors.md has the rules for operators.
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
