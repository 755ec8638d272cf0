"""The control socket of a running application: one JSON line asks, one JSON line answers.

A request is ``{"v": 1, "command": NAME, "args": {...}}``; the answer is ``{"v": 1, "ok": true,
"result": ...}`` or ``{"v": 1, "ok": false, "error": {"place", "finding", "remedy"}}``. A
connection may ask many times. The socket lies in the run directory and belongs to its user alone.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from daybreak.model.errors import ConfigError

VERSION = 1
SOCKET = "control.sock"
#: A longer request is refused, and its connection closed.
MOST_BYTES = 2**20
#: What the kernel leaves for a socket's path.
_LONGEST_PATH = 100


class NotRunning(ConfigError):
    """A run directory whose run does not go on now."""


Handler = Callable[[str, Mapping[str, Any]], Any]


class ControlServer:
    """Answers requests on a thread of its own, one after the other, until ``close``.

    ``handle(command, args)`` gives what becomes JSON; its ``ConfigError`` goes to the asker.
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
        self._listener.setblocking(False)
        self._bell, self._ring = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._heard: dict[socket.socket, bytearray] = {}
        self._thread = threading.Thread(target=self._serve, name="daybreak-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and removes the socket. Idempotent."""
        if self._thread.is_alive():
            self._ring.send(b"x")
            self._thread.join()
        for open_socket in (*self._heard, self._listener, self._bell, self._ring):
            open_socket.close()
        self._selector.close()
        self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._bell:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._hear(key.fileobj)

    def _accept(self) -> None:
        with suppress(OSError):  # the asker has gone already
            asker, _ = self._listener.accept()
            asker.settimeout(5.0)  # for sending: who does not listen is left
            self._heard[asker] = bytearray()
            self._selector.register(asker, selectors.EVENT_READ)

    def _hear(self, asker: socket.socket) -> None:
        try:
            received = asker.recv(2**16)
            if not received:
                raise ConnectionResetError
            heard = self._heard[asker]
            heard += received
            while (end := heard.find(b"\n")) >= 0:
                line = bytes(heard[:end])
                del heard[: end + 1]
                asker.sendall(answer(self._handle, line))
            if len(heard) > MOST_BYTES:
                asker.sendall(_refusal(ConfigError("request", "is too long", "send less")))
                raise ConnectionResetError
        except OSError:
            self._selector.unregister(asker)
            del self._heard[asker]
            asker.close()


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
