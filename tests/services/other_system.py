"""The tiny server as on Windows, as far as Linux can show it: `python -m tests.services.other_system`.

To code of this package, the system is Windows, and modules, functions, signals and kinds of sockets that Windows or
macOS lacks are absent. Everything else sees Linux. `sitecustomize` calls `pretend`, in child processes too.
"""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import socket
import sys
from types import ModuleType
from typing import Any, NoReturn

# What `os`, `signal` and `socket` of Linux have and one of the others has not, among what a server could come to use.
_ABSENT = {
    "os": "fork forkpty getuid geteuid getgid getegid setsid setpgid getpgid killpg nice chown lchown fchown fchmod "
    "pread pwrite preadv pwritev sendfile mkfifo uname getloadavg sysconf statvfs posix_spawn wait3 wait4 sync "
    "getpriority setpriority O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_NONBLOCK sched_getaffinity sched_setaffinity "
    "memfd_create pipe2 eventfd pidfd_open posix_fadvise posix_fallocate fdatasync splice copy_file_range getrandom",
    "signal": "SIGHUP SIGKILL SIGUSR1 SIGUSR2 SIGCHLD SIGPIPE SIGALRM SIGQUIT SIGSTOP SIGCONT SIGTSTP SIGXCPU "
    "SIGWINCH SIGRTMIN SIGRTMAX SIGPWR setitimer alarm pthread_sigmask sigwait",
    "socket": "AF_UNIX send_fds recv_fds SO_REUSEPORT TCP_NOTSENT_LOWAT TCP_USER_TIMEOUT SOCK_SEQPACKET SOCK_CLOEXEC "
    "SOCK_NONBLOCK SO_PEERCRED",
}
_ABSENT_MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "uvloop")


def pretend() -> None:
    for name in _ABSENT_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # so Python spells "cannot be imported"
    for module in (os, signal, socket):
        _hide(module, dict.fromkeys(_ABSENT[module.__name__].split()))
    _hide(sys, {"platform": "win32"})
    for method in ("add_signal_handler", "add_reader", "add_writer"):
        setattr(asyncio.SelectorEventLoop, method, _not_implemented)
    known = platform.system, platform.machine
    platform.system = lambda: "Windows" if _is_ours() else known[0]()
    platform.machine = lambda: "AMD64" if _is_ours() else known[1]()


def _hide(module: ModuleType, names: dict[str, str | None]) -> None:
    """Our code finds none of the names in the module, or another value."""

    class Other(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            if name not in names or not _is_ours():
                return super().__getattribute__(name)
            if (other := names[name]) is not None:
                return other
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=self)

    module.__class__ = Other


def _is_ours() -> bool:
    """Whether the caller's caller is code of the package."""
    return str(sys._getframe(2).f_globals.get("__name__")).startswith("kokoro_server")


def _not_implemented(*_arguments: object) -> NoReturn:
    raise NotImplementedError


if __name__ == "__main__":
    from tests.services import tiny

    tiny.main("tests.services.tiny:load", tiny.load)
