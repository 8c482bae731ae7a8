"""A real MCP client: it starts `autoqec mcp` and speaks over its standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters, types

T = TypeVar("T")
SECRET = "not-for-children-4711"


def with_client(root: Path, use: Callable[[Client], Awaitable[T]]) -> T:
    async def session() -> T:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "autoqec", "mcp", "--root", str(root)],
            env={**os.environ, "ANTHROPIC_API_KEY": SECRET},
        )
        async with Client(server, read_timeout_seconds=300) as client:
            return await use(client)

    return asyncio.run(session())


def call_all(root: Path, *calls: tuple[str, dict[str, Any]]) -> list[types.CallToolResult]:
    """The results of calls in one session, one after the other."""

    async def use(client: Client) -> list[types.CallToolResult]:
        return [await client.call_tool(name, arguments) for name, arguments in calls]

    return with_client(root, use)


def text_of(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def data_of(result: types.CallToolResult) -> Any:
    assert not result.is_error, text_of(result)
    return json.loads(text_of(result))


def error_of(result: types.CallToolResult) -> str:
    assert result.is_error, text_of(result)
    return text_of(result)
