"""A TCP proxy on loopback that breaks connections at a chosen message."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards one port to another. ``stop`` breaks everything, ``start`` accepts again."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._guard = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._break: tuple[bytes, bool, bool] | None = None
        self.breaks = 0
        self.port = 0
        self.start()

    def start(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._guard:
            for end in self._open:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def break_at(self, text: bytes, *, after: bool, for_good: bool = False) -> None:
        """Breaks the next connection whose client sends ``text``: unseen by the server, or after
        the server has answered. ``for_good``: and accepts no other one."""
        self._break = text, after, for_good

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                with self._guard:
                    self._open |= {client, server}
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """Client to server; the answers on a thread of their own, unless one is to be held back."""
        held = threading.Event()
        answers = threading.Thread(target=self._answer, args=(server, client, held), daemon=True)
        answers.start()
        with suppress(OSError):
            while data := client.recv(2**16):
                found = self._break
                if found is not None and found[0] in data:
                    self._break = None
                    _, after, for_good = found
                    self.breaks += 1
                    if after:
                        held.set()  # the answer is the server's word that it is done
                        server.sendall(data)
                        answers.join(10)
                    if for_good:
                        self.stop()
                    break
                server.sendall(data)
        self._end(client, server)

    def _answer(self, server: socket.socket, client: socket.socket, held: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(2**16):
                if held.is_set():
                    return
                client.sendall(data)
        self._end(client, server)

    def _end(self, *ends: socket.socket) -> None:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        with self._guard:
            self._open -= set(ends)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
