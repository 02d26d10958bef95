"""Become a server: tie this process to its parent, drop privileges, execute.

Run as ``python -I -S launch.py PARENT SIGNAL UID GID PROGRAM [ARGUMENT...]`` (UID and GID may be
``-``). A child of the local cluster must not outlive its supervisor, even one that was killed
with SIGKILL, so the kernel is asked (``PR_SET_PDEATHSIG``) to signal it when the parent dies. That
setting is cleared by a change of user and kept by exec, hence the order here. ``preexec_fn`` of
subprocess was rejected: it runs Python between fork and exec in a process that may have threads.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, death_signal, uid, gid, program, *arguments = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    os.umask(0o077)
    if uid != "-":
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    if libc.prctl(PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != int(parent):
        sys.exit("the supervisor died before this server started")
    os.execv(program, [program, *arguments])  # noqa: S606 -- becoming the server is the purpose


if __name__ == "__main__":
    main()
