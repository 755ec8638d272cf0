"""A real HTTP filter service: passes a share of the keys, after a configured delay.

    python benchmarks/http_filter.py PORT SHARE DELAY_MS THREADS

``GET /KEY`` answers 200 with JSON if the third digit of KEY in base 5 is below 5 x SHARE, 404
otherwise: the keys 0..124 hold every combination of three such digits once. Like a
service with so many workers it works on THREADS requests at a time and queues the rest.
"""

from __future__ import annotations

import asyncio
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


def passes(key: int, share: float) -> bool:
    return key // 25 % 5 < 5 * share


def make_app(share: float, delay_s: float, threads: int) -> Starlette:
    workers = asyncio.Semaphore(threads)

    async def answer(request: Request) -> Response:
        key = int(request.path_params["key"])
        async with workers:
            await asyncio.sleep(delay_s)
        if passes(key, share):
            return JSONResponse({"score": key % 7})
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
