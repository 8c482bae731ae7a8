"""Confines its own process, then becomes the given program. A script for `python -I -S`, stdlib only.

    _launch.py '{"walls": ["rlimits", "landlock", "seccomp"], "readable": [...], ...}' program argument ...

Each wall either stands or ends the process with `REFUSED` and a reason on stderr: the program never runs
behind fewer walls than were asked for. System calls go through ctypes: the standard library
has no names for them.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import signal
import stat
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

REFUSED = 97
"""Exit code when a wall cannot be put up."""

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def rlimits(spec: dict[str, Any]) -> None:
    """`limits` maps names of the `resource` module, such as RLIMIT_AS, to values no limit may exceed."""
    for name, value in spec.get("limits", {}).items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (ceiling, ceiling))


# Landlock: https://docs.kernel.org/userspace-api/landlock.html. The access rights are bits in the order they
# were added; version 1 of the interface has the first 13, and each later one adds to them.
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_RIGHTS_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_RIGHTS_OF_A_DEVICE = _WRITE_FILE | _READ_FILE | _READ_DIR | _TRUNCATE | _IOCTL_DEVICE
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_NETWORK_RIGHTS, _SCOPES = 3, 3  # TCP bind and connect; abstract sockets and signals


def landlock(spec: dict[str, Any]) -> None:
    """Files: only `readable` can be read and run, only `writable` changed. TCP and outside signals: none."""
    version = _check(_libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1), "Landlock is not in this kernel")
    files = _RIGHTS_BY_VERSION.get(version, (1 << 16) - 1)
    handled = struct.pack(
        "QQQ", files, _NETWORK_RIGHTS if version >= 4 else 0, _SCOPES if version >= 6 else 0
    )
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _check(_libc.syscall(_LANDLOCK_CREATE_RULESET, handled, size, 0), "landlock_create_ruleset")
    for path in spec["readable"]:
        _landlock_readable(ruleset, path, spec["hidden"])
    for path in spec["writable"]:
        _landlock_allow(ruleset, path, files)
    for path in spec["devices"]:
        _landlock_allow(ruleset, path, files & _RIGHTS_OF_A_DEVICE)
    _check(_libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _landlock_readable(ruleset: int, path: str, hidden: Sequence[str]) -> None:
    """Rights only add up, so the way to a hidden folder is opened entry by entry, and its files are left out."""
    if path in hidden:
        return
    if not any(each.startswith(f"{path.rstrip('/')}/") for each in hidden) or not Path(path).is_dir():
        _landlock_allow(ruleset, path, _EXECUTE | _READ_FILE | _READ_DIR)
        return
    _landlock_allow(ruleset, path, _READ_DIR)
    for entry in os.scandir(path):
        if not entry.is_symlink():  # a link needs no right of its own, and one given to it is its target's
            _landlock_readable(ruleset, entry.path, hidden)


def _landlock_allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not Path(path).is_dir():
        rights &= _RIGHTS_OF_A_FILE
    rule = struct.pack("=Qi", rights, descriptor)
    _check(_libc.syscall(_LANDLOCK_ADD_RULE, ruleset, 1, rule, 0), f"landlock_add_rule {path}")
    os.close(descriptor)


# Seccomp: system calls that answer EPERM, by their numbers on each machine. socketpair is not among them: it
# joins the program's own processes only.
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_DENIED = {
    "socket": (41, 198),
    "ptrace": (101, 117),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "pidfd_getfd": (438, 438),
    # memory that outlives its process, for the next one to find
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
}
# How processes are made: fork and vfork exist on x86_64 only; clone makes threads as well.
_FORKS = {"x86_64": (57, 58), "aarch64": ()}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3, _CLONE_THREAD = 435, 0x10000
_AF_UNIX = 1


def seccomp(spec: dict[str, Any]) -> None:
    """No new sockets, no system calls that reach into other processes or change the mounts.

    With `local_sockets`, sockets of the machine's own kind are allowed: the program must have a network view of its own, in which nobody
    else listens. With `alone`, no new processes either: threads only. clone3 hides its flags from a filter, so it is reported
    as missing, and the C library falls back to clone.
    """
    machine = platform.machine()
    if machine not in _AUDIT_ARCH:
        raise OSError(f"no seccomp filter for {machine}")
    column = list(_AUDIT_ARCH).index(machine)
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    kill, allow, refuse, missing = 0x80000000, 0x7FFF0000, 0x00050001, 0x00050026  # EPERM is 1, ENOSYS 38
    denied = dict(_DENIED)
    looked_into: list[tuple[int, int, int, int]] = []
    if spec.get("local_sockets"):
        number = denied.pop("socket")[column]
        looked_into += [
            (equal, 0, 4, number),
            (load, 0, 0, 16),
            (equal, 1, 0, _AF_UNIX),
            (answer, 0, 0, refuse),
        ]
        looked_into += [(load, 0, 0, 0)]
    numbers = [pair[column] for pair in denied.values()]
    if spec.get("alone"):
        numbers += _FORKS[machine]
        looked_into += [(equal, 0, 1, _CLONE3), (answer, 0, 0, missing), (equal, 0, 3, _CLONE[machine])]
        looked_into += [(load, 0, 0, 16), (any_bit, 1, 0, _CLONE_THREAD), (answer, 0, 0, refuse)]
    program = [(load, 0, 0, 4), (equal, 1, 0, _AUDIT_ARCH[machine]), (answer, 0, 0, kill), (load, 0, 0, 0)]
    # Numbers from 2^30 are the x32 variants of the same calls.
    program += [(at_least, len(numbers) + len(looked_into) + 1, 0, 0x40000000)]
    program += [(equal, len(numbers) + len(looked_into) - i, 0, number) for i, number in enumerate(numbers)]
    program += looked_into
    program += [(answer, 0, 0, allow), (answer, 0, 0, refuse)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    _check(_libc.prctl(_PR_SET_SECCOMP, 2, header, 0, 0), "seccomp")


# Namespaces: the mount, process, network and IPC views are the program's own.
_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MS_READ_ONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MNT_DETACH, _AT_FDCWD, _AT_RECURSIVE, _MOUNT_SETATTR = 2, -100, 0x8000, 442
_ATTR_READ_ONLY, _ATTR_NO_SUID, _ATTR_NO_DEVICES = 1, 2, 4
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_INNER_USER = 1000


def namespaces(spec: dict[str, Any]) -> None:
    """A root of `readable`, `writable` and `devices` and nothing else; no network, no other processes."""
    folder, user, group = Path.cwd(), os.getuid(), os.getgid()
    flags = _NEWUSER | _NEWNS | _NEWNET | _NEWIPC | _NEWPID
    _check(_libc.unshare(flags), "user namespaces are not allowed here")
    # As a user other than 0, the program loses its rights over these namespaces when it starts.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{_INNER_USER} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{_INNER_USER} {group} 1")
    _become_first_process()
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    kept = [(path, _ATTR_READ_ONLY | _ATTR_NO_SUID | _ATTR_NO_DEVICES) for path in spec["readable"]]
    kept += [(path, _ATTR_NO_SUID | _ATTR_NO_DEVICES) for path in spec["writable"]]
    kept += [(path, _ATTR_READ_ONLY | _ATTR_NO_SUID) for path in spec["devices"]]
    # Outer folders first, so that they do not cover what lies inside; opened before /tmp is covered.
    kept = sorted(
        (item for item in kept if Path(item[0]).exists()), key=lambda item: len(Path(item[0]).parts)
    )
    opened = [(path, attributes, os.open(path, os.O_PATH)) for path, attributes in kept]
    root = Path("/tmp")
    _mount("tmpfs", str(root), "tmpfs", _MS_NOSUID | _MS_NODEV, b"size=1m,mode=755")
    os.chdir(root)
    for path, attributes, descriptor in opened:
        inside = Path(path).relative_to("/")
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            inside.mkdir(parents=True, exist_ok=True)
        elif not inside.exists():
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()
        _mount(f"/proc/self/fd/{descriptor}", str(inside), None, _MS_BIND | _MS_REC)
        _set_attributes(str(inside), attributes, _AT_RECURSIVE)
        os.close(descriptor)
    for path in spec["hidden"]:
        inside = Path(path).relative_to("/")
        if inside.is_dir():
            _mount("tmpfs", str(inside), "tmpfs", _MS_NOSUID | _MS_NODEV | _MS_READ_ONLY, b"size=4k")
    Path("proc").mkdir(exist_ok=True)
    with contextlib.suppress(OSError):  # not allowed in some containers; most programs do without
        _mount("proc", "proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _check(_libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount2")
    _set_attributes("/", _ATTR_READ_ONLY, 0)
    os.chdir(folder if folder.is_dir() else "/")


def _become_first_process() -> None:
    """Continue in a child, the first process of the new namespace: when it ends, all its descendants do."""
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: bytes | None = None) -> None:
    encoded = [text and os.fsencode(text) for text in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), data), f"mount {target}")


def _set_attributes(path: str, attributes: int, flags: int) -> None:
    wanted = struct.pack("QQQQ", attributes, 0, 0, 0)
    result = _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, wanted, len(wanted))
    _check(result, f"mount_setattr {path}")


_WALLS: dict[str, Callable[[dict[str, Any]], None]] = {
    "namespaces": namespaces,
    "rlimits": rlimits,
    "landlock": landlock,
    "seccomp": seccomp,
}


def main(argv: Sequence[str]) -> None:
    spec = json.loads(argv[0])
    name = "no_new_privs"
    try:
        _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
        if spec["walls"] != ["rlimits"]:
            _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
        for name, wall in _WALLS.items():
            if name in spec["walls"]:
                wall(spec)
    except (OSError, AttributeError, KeyError, ValueError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    os.execv(argv[1], list(argv[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
