"""The control socket of a running application: one JSON line asks, one JSON line answers.

A request is ``{"v": 1, "command": NAME, "args": {...}}``; the answer is ``{"v": 1, "ok": true,
"result": ...}`` or ``{"v": 1, "ok": false, "error": {"place", "finding", "remedy"}}``. A
connection may ask many times. The socket lies in the run directory and belongs to its user alone.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from daybreak.model.errors import ConfigError

VERSION = 1
SOCKET = "control.sock"
#: A longer request is refused, and its connection closed.
MOST_BYTES = 2**20
#: Connections at a time: each has a thread. A dashboard holds one, a command one for a moment.
MOST_ASKERS = 64
#: Who does not listen for so long while an answer is sent is left.
SEND_S = 5.0
#: Between two attempts to take a connection, where the process has no handles left.
RETRY_S = 0.1
#: What is asked when the run stops may take so long; longer, and it is cut off.
GRACE_S = 5.0
#: What the kernel leaves for a socket's path.
_LONGEST_PATH = 100


class NotRunning(ConfigError):
    """A run directory whose run does not go on now."""


Handler = Callable[[str, Mapping[str, Any]], Any]


class ControlServer:
    """Answers requests until ``close``: those of a connection in order, each one on its own thread.

    So a request that waits, such as for a sink that blocks, holds up nobody else.
    ``handle(command, args)`` is called from any of these threads and gives what becomes JSON; its
    ``ConfigError`` goes to the asker.
    """

    def __init__(self, folder: Path, handle: Handler) -> None:
        self.path = folder / SOCKET
        self._handle = handle
        self.path.unlink(missing_ok=True)  # of a run that died: the folder's lock is ours
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short(self.path) as address:
                self._listener.bind(address)
            self.path.chmod(0o600)  # before anybody can connect
            self._listener.listen(16)
        except BaseException:
            self._listener.close()
            raise
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._askers: dict[socket.socket, threading.Thread] = {}
        self._thread = threading.Thread(target=self._accept, name="daybreak-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Removes the socket; requests under way get ``GRACE_S`` to be answered. Idempotent."""
        with self._guard:
            self._closing.set()
            askers = dict(self._askers)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the accept that waits
        for asker in askers:
            with suppress(OSError):
                asker.shutdown(socket.SHUT_RD)  # nothing more is heard; an answer is still sent
        self._thread.join()
        self._listener.close()
        end_s = time.monotonic() + GRACE_S
        for thread in askers.values():
            thread.join(max(0.0, end_s - time.monotonic()))
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                asker, _ = self._listener.accept()
            except OSError:
                self._closing.wait(RETRY_S)  # the asker has gone already, or handles are short
                continue
            asker.settimeout(SEND_S)
            with self._guard:
                refused = self._closing.is_set() or len(self._askers) >= MOST_ASKERS
                if not refused:
                    self._askers[asker] = thread = threading.Thread(
                        target=self._serve, args=(asker,), name="daybreak-asker", daemon=True
                    )
                    thread.start()
            if refused:
                with asker, suppress(OSError):
                    busy = f"answers {MOST_ASKERS} others"
                    asker.sendall(_refusal(ConfigError("request", busy, "try again later")))

    def _serve(self, asker: socket.socket) -> None:
        try:
            with asker, suppress(OSError):
                self._hear(asker)
        finally:
            with self._guard:
                del self._askers[asker]

    def _hear(self, asker: socket.socket) -> None:
        heard = bytearray()
        while received := _received(asker):
            heard += received
            while (end := heard.find(b"\n")) >= 0:
                line = bytes(heard[:end])
                del heard[: end + 1]
                asker.sendall(answer(self._handle, line))
            if len(heard) > MOST_BYTES:
                asker.sendall(_refusal(ConfigError("request", "is too long", "send less")))
                return


def _received(asker: socket.socket) -> bytes:
    """Waits for what comes next, however long it takes; empty at the end."""
    while True:
        with suppress(TimeoutError):
            return asker.recv(2**16)


def answer(handle: Handler, line: bytes) -> bytes:
    """The answer to one line: whatever is in it, one line of JSON."""
    try:
        command, args = _request(line)
        return _line({"v": VERSION, "ok": True, "result": handle(command, args)})
    except ConfigError as error:
        return _refusal(error)
    except Exception as error:  # the run must go on, and the asker must hear of it
        finding = f"failed ({type(error).__name__}: {error})"
        return _refusal(ConfigError("request", finding, "please report it"))


def _request(line: bytes) -> tuple[str, Mapping[str, Any]]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise ConfigError("request", "is not JSON", "send one JSON object a line") from None
    if not isinstance(request, dict):
        raise ConfigError("request", "is not a JSON object", 'send {"v": 1, "command": ...}')
    if request.get("v") != VERSION:
        raise ConfigError(
            "request",
            f"speaks version {request.get('v')!r}, this run speaks {VERSION}",
            "use the Daybreak that started the run",
        )
    command, args = request.get("command"), request.get("args", {})
    if not isinstance(command, str) or not isinstance(args, dict):
        raise ConfigError("request", "has no command, or args that are no object", "correct it")
    return command, args


def _refusal(error: ConfigError) -> bytes:
    said = {"place": error.place, "finding": error.finding, "remedy": error.remedy}
    return _line({"v": VERSION, "ok": False, "error": said})


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def call(
    folder: Path,
    command: str,
    args: Mapping[str, Any] | None = None,
    *,
    timeout_s: float = 60.0,
) -> Any:
    """Asks the run that has this run directory; ``ConfigError`` if there is none, or it refuses."""
    path = folder / SOCKET
    request = _line({"v": VERSION, "command": command, "args": dict(args or {})})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
        asker.settimeout(timeout_s)
        try:
            with _short(path) as address:
                asker.connect(address)
            with suppress(ConnectionError):  # a run that refuses may not wait for the request
                asker.sendall(request)
            text = _read_line(asker)
        except TimeoutError:
            raise ConfigError(
                str(folder), f"its run does not answer for {timeout_s:g} s", "try again, or stop it"
            ) from None
        except OSError as error:
            raise _nobody(folder, error) from None
    return _result(folder, text)


def _read_line(asker: socket.socket) -> bytes:
    text = bytearray()
    while not text.endswith(b"\n"):
        received = asker.recv(2**16)
        if not received:
            break
        text += received
    return bytes(text)


def _result(folder: Path, text: bytes) -> Any:
    try:
        told = json.loads(text)
        if told["v"] != VERSION:
            raise ConfigError(
                str(folder),
                f"its run speaks version {told['v']!r} of the control protocol, not {VERSION}",
                "use the Daybreak that started the run",
            )
        if told["ok"]:
            return told["result"]
        error = told["error"]
        refusal = ConfigError(str(error["place"]), str(error["finding"]), str(error["remedy"]))
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            str(folder), "its run gave no answer that can be read", "see whether it still runs"
        ) from None
    raise refusal


def _nobody(folder: Path, error: OSError) -> ConfigError:
    if isinstance(error, PermissionError):
        return ConfigError(str(folder), "its run belongs to another user", "ask as that user")
    if not (folder / "daybreak.json").exists():
        return ConfigError(str(folder), "is not a run directory", "name one, such as runs/NAME")
    return NotRunning(
        str(folder), "no run is there now", "start it with daybreak run, or name another directory"
    )


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A path to the same socket that the kernel takes: it allows only 108 bytes."""
    full = os.path.abspath(path)  # noqa: PTH100  # resolving may lengthen it
    if len(os.fsencode(full)) <= _LONGEST_PATH:
        yield full
        return
    if not Path("/proc/self/fd").is_dir():
        raise ConfigError(str(path), "its path is too long for a socket", "use a shorter one")
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
