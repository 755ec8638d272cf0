"""A real HTTP filter service: passes keys below a share of 1000, after a configured delay.

    python benchmarks/http_filter.py PORT SHARE DELAY_MS THREADS

``GET /KEY`` answers 200 with JSON if ``hash(KEY)`` is below the share, 404 otherwise. Like a
service with so many workers, it works on THREADS requests at a time and queues the rest.
"""

from __future__ import annotations

import asyncio
import sys
from zlib import crc32

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


def passes(key: str, share: float) -> bool:
    """The same verdict for the same key, everywhere."""
    return crc32(f"http/{key}".encode()) % 1000 < 1000 * share


def make_app(share: float, delay_s: float, threads: int) -> Starlette:
    workers = asyncio.Semaphore(threads)

    async def answer(request: Request) -> Response:
        key = request.path_params["key"]
        async with workers:
            await asyncio.sleep(delay_s)
        if passes(key, share):
            return JSONResponse({"score": int(key) % 7})
        return Response(status_code=404)

    return Starlette(routes=[Route("/{key}", answer)])


if __name__ == "__main__":
    port, share, delay_ms, threads = sys.argv[1:]
    uvicorn.run(
        make_app(float(share), float(delay_ms) / 1e3, int(threads)),
        host="127.0.0.1",
        port=int(port),
        log_level="error",
        access_log=False,
    )
