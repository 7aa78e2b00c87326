"""A Landlock domain for each job, where the kernel has it (Linux 6.12 or later).

A process in a domain can neither trace nor signal processes outside of it. This keeps the jobs of
one user from reading each other's memory and sockets and from killing each other, the zygote and
the worker. It needs no privileges, and it holds for root too. A process outside of all domains, as
the zygote is, can still read and signal jobs.
"""

import ctypes
import struct
import sys

_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # the same on all architectures
_VERSION_FLAG = 1
_FIRST_VERSION_WITH_SCOPES = 6
_SCOPE_SIGNAL = 2

# Keeps the interpreter's lock, which a fresh fork does not have to release.
_syscall = ctypes.PyDLL(None, use_errno=True).syscall if sys.platform == "linux" else None


def open_ruleset() -> int | None:
    """Return a descriptor for `enter_domain`; None where the kernel cannot do it."""
    if _syscall is None:
        return None
    version = _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < _FIRST_VERSION_WITH_SCOPES:
        return None
    # handled_access_fs, handled_access_net, scoped
    attributes = struct.pack("QQQ", 0, 0, _SCOPE_SIGNAL)
    ruleset: int = _syscall(
        _CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)
    )
    return None if ruleset < 0 else ruleset


def enter_domain(ruleset: int) -> None:
    """Put this process and its descendants into a new domain. Needs no_new_privs."""
    if _syscall is not None and _syscall(_RESTRICT_SELF, ruleset, 0) < 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self failed")
