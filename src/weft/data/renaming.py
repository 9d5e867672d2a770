# SPDX-License-Identifier: MIT
"""Two names that change places in one step, where the system can: Linux's renameat2, macOS's renamex_np."""

import ctypes
import errno
import functools
import os
import pathlib
from collections.abc import Callable

__all__ = ["exchange"]

_AT_CWD, _EXCHANGE = -100, 2
_SWAP = 2
# Of a system, or a file system, that does not know how.
_CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


def exchange(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Let two names, both there, change places; False, and nothing done, where that takes more than one step."""
    swap = _swap()
    if swap is None:
        return False
    if swap(os.fsencode(one), os.fsencode(other)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT:
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))


@functools.cache
def _swap() -> Callable[[bytes, bytes], int] | None:
    """The system's call, or None without one."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):
        return None
    if hasattr(library, "renameat2"):
        call = library.renameat2
        call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
        return lambda one, other: int(call(_AT_CWD, one, _AT_CWD, other, _EXCHANGE))
    if hasattr(library, "renamex_np"):
        call = library.renamex_np
        call.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint)
        return lambda one, other: int(call(one, other, _SWAP))
    return None
