"""A client of an MCP server over stdio, of the SDK itself. Run by the interpreter of an environment that has the SDK.

Reads JSON objects from standard input, each in a line: `command`, `env`, `cwd`, `mode` ("auto" for the newest protocol,
"legacy" for the handshake), `roots` (null for a client without), `calls` (lists of calls, each list at once). Starts a
server for each, and prints one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import ListRootsResult, Root


async def run(spec: dict[str, Any]) -> dict[str, Any]:
    async def list_roots(_: object) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=uri) for uri in spec["roots"]])

    command, *arguments = spec["command"]
    server = StdioServerParameters(command=command, args=arguments, env=spec["env"], cwd=spec["cwd"])
    results: list[Any] = []
    progress: list[Any] = []

    async def watch(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    async with Client(
        server, mode=spec["mode"], list_roots_callback=list_roots if spec["roots"] is not None else None
    ) as client:
        tools = (await client.list_tools()).tools
        for together in spec["calls"]:
            work = [client.call_tool(tool, arguments, progress_callback=watch) for tool, arguments in together]
            results += [one.model_dump(mode="json", by_alias=True) for one in await asyncio.gather(*work)]
        instructions = client.instructions
    return {
        "tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools],
        "results": results,
        "progress": progress,
        "instructions": instructions,
    }


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(asyncio.run(run(json.loads(line)))), flush=True)
