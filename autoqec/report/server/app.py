"""The web application: a list of runs, a page for each, comparisons, and events when something changes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoqec.errors import AutoQECError
from autoqec.report.page.html import COMPARISON, LIST, REPORT, finite, page
from autoqec.report.server.door import Door
from autoqec.report.server.shelf import NoSuchRun, Shelf

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOOK_EVERY_S = 1.0
_SILENCE = 15
"""Looks without a change after which a comment is sent, so that a browser that has gone is noticed."""


def make_app(
    folder: Path, *, hosts: frozenset[str] | None, token: str | None, look_every_s: float = LOOK_EVERY_S
) -> Starlette:
    """folder: with the runs. hosts: names by which a browser may call this server; None: any, where there is a token. token: what it has to show; None: nothing."""
    import anyio
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.responses import HTMLResponse, JSONResponse, StreamingResponse
    from starlette.routing import Route

    shelf = Shelf(folder)

    async def front(_request: Request) -> Response:
        urls = {"run": "/runs/", "data": "/api/runs", "events": "/api/events", "compare": "/compare"}
        data = {"folder": shelf.folder.name, "live": urls, **await run_in_threadpool(shelf.runs)}
        return HTMLResponse(page("AutoQEC runs", data, LIST, live=True))

    async def runs(_request: Request) -> Response:
        return JSONResponse(finite(await run_in_threadpool(shelf.runs)))

    async def one(request: Request) -> Response:
        name = request.path_params["name"]
        found = await run_in_threadpool(shelf.page, name)
        urls = {"data": f"/api/runs/{name}", "events": f"/api/runs/{name}/events", "up": "/"}
        return HTMLResponse(page(f"{name}: {found['heading']}", {**found, "live": urls}, REPORT, live=True))

    async def one_data(request: Request) -> Response:
        return JSONResponse(finite(await run_in_threadpool(shelf.page, request.path_params["name"])))

    async def compared(request: Request) -> Response:
        found = await run_in_threadpool(shelf.comparison, request.query_params.getlist("run"))
        return HTMLResponse(page("Comparison of runs", {**found, "live": {"up": "/"}}, COMPARISON))

    async def changes(look: Callable[[], Any]) -> AsyncIterator[str]:
        seen, quiet = await run_in_threadpool(look), 0
        yield "event: hello\ndata: {}\n\n"
        while True:
            await anyio.sleep(look_every_s)
            try:
                now = await run_in_threadpool(look)
            except (AutoQECError, OSError):
                return
            quiet += 1
            if now != seen:
                seen, quiet = now, 0
                yield f"event: changed\ndata: {json.dumps({})}\n\n"
            elif quiet >= _SILENCE:
                quiet = 0
                yield ": still here\n\n"

    async def events(_request: Request) -> Response:
        return StreamingResponse(changes(shelf.list_signature), media_type="text/event-stream")

    async def one_events(request: Request) -> Response:
        name = request.path_params["name"]
        await run_in_threadpool(shelf.signature, name)
        return StreamingResponse(changes(lambda: shelf.signature(name)), media_type="text/event-stream")

    async def refused(_request: Request, error: Exception) -> Response:
        what = str(getattr(error, "what", error))
        return JSONResponse({"error": what}, status_code=404 if isinstance(error, NoSuchRun) else 422)

    routes = [
        Route(path, endpoint, methods=["GET"])
        for path, endpoint in (
            ("/", front),
            ("/compare", compared),
            ("/runs/{name}", one),
            ("/api/runs", runs),
            ("/api/events", events),
            ("/api/runs/{name}", one_data),
            ("/api/runs/{name}/events", one_events),
        )
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Door, hosts=hosts, token=token)],
        exception_handlers={AutoQECError: refused},
    )
