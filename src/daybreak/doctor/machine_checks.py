"""Memory, disk space, folders and ports of this machine."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from daybreak.doctor.check_result import CheckResult, failure, passed, warning
from daybreak.runtime.display import number

GIB = 1 << 30
#: Spark's default heap of a driver, and what Python takes beside it.
DEFAULT_HEAP_BYTES = GIB
PYTHON_BYTES = GIB // 2
#: Below the first a run soon fails; below the second it may.
DISK_FAILS_BYTES = GIB // 4
DISK_LOW_BYTES = 2 * GIB
_HEAP = "spark.driver.memory"
_SIZE = re.compile(r"(\d+)\s*(?:([kmgtp])b?|(b))?", re.IGNORECASE)


def check_memory(conf: Mapping[str, str]) -> Iterator[CheckResult]:
    """The driver's heap against what this machine or container has; nothing if that is unknown."""
    needed = heap_bytes(conf.get(_HEAP, "")) + PYTHON_BYTES
    total, free = memory_bytes()
    if total is None:
        return
    sizes = f"a driver takes {_gib(needed)}"
    if total < needed:
        yield failure(
            "memory",
            f"{_gib(total)} in all, and {sizes}",
            f"give the machine or container more, or --conf {_HEAP}=512m",
        )
    elif free is not None and free < needed:
        yield warning("memory", f"{_gib(free)} free, and {sizes}", "stop other programs")
    else:
        yield passed("memory", f"{_gib(total if free is None else free)} free, {sizes}")


def heap_bytes(text: str) -> int:
    """Bytes in a size as Spark writes it (``512m``, ``2g``); the default if it is none."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return DEFAULT_HEAP_BYTES
    unit = "b" if match[3] else (match[2] or "m").lower()  # Spark takes a bare number for MiB
    return int(match[1]) << (10 * "bkmgtp".index(unit))


def memory_bytes() -> tuple[int | None, int | None]:
    """Total and free, of the container where there is one; None for what cannot be found out."""
    total = free = None
    with suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        parts = [line.split() for line in lines]
        found = {name.rstrip(":"): int(kib) << 10 for name, kib, *_ in parts}
        total, free = found.get("MemTotal"), found.get("MemAvailable")
    if total is None:
        with suppress(OSError, ValueError):
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit_file, used_file in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        with suppress(OSError, ValueError):
            limit = int(Path(limit_file).read_text(encoding="ascii"))
            if total is None or limit < total:
                left = limit - int(Path(used_file).read_text(encoding="ascii"))
                total, free = limit, left if free is None else min(free, left)
    return total, free


def check_scratch(conf: Mapping[str, str]) -> Iterator[CheckResult]:
    """Spark's scratch folders."""
    given = os.environ.get("SPARK_LOCAL_DIRS") or conf.get("spark.local.dir")
    for text in (given or tempfile.gettempdir()).split(","):
        remedy = "export SPARK_LOCAL_DIRS to a folder on a larger disk that you may write to"
        yield check_folder("scratch folder", Path(text.strip()), remedy)


def check_folder(check: str, path: Path, remedy: str) -> CheckResult:
    """Whether files can be made there, now or once the folder is made, and how much room it has."""
    shown = Path(os.path.abspath(path))  # noqa: PTH100  # keeps links
    above = next(p for p in (shown, *shown.parents) if p.exists() or p.is_symlink())
    if not above.is_dir():
        return failure(check, f"{shown}: {above} is not a folder", remedy)
    try:
        # A real file: permissions alone overlook read-only file systems.
        with tempfile.TemporaryFile(dir=above, prefix=".daybreak-doctor-"):
            pass
    except OSError as error:
        return failure(check, f"{shown}: cannot write to {above} ({error.strerror})", remedy)
    free = shutil.disk_usage(above).free
    room = f"{shown}: {_gib(free)} free"
    if free < DISK_FAILS_BYTES:
        return failure(check, room, f"free some space with: du -xsh {above}/*, or {remedy}")
    if free < DISK_LOW_BYTES:
        return warning(check, room, remedy)
    return passed(check, room)


def check_port(
    check: str,
    host: str,
    port: int,
    remedy: str,
    report: Callable[[str, str, str], CheckResult] = failure,
) -> CheckResult:
    """Whether a server could listen there; ``report`` makes the result if not."""
    where = f"{host}:{port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        reason = "is taken by another process" if taken else f"cannot be used ({error.strerror})"
        return report(check, f"{where} {reason}", remedy)
    return passed(check, f"{where} is free")


def _gib(size: int) -> str:
    return f"{number(size / GIB, 1)} GiB"
