"""Lists and calls every default tool with the Python SDK, in three languages.

    every.py stdio PROGRAM ARGS...      a front that this client starts
    every.py http URL TOKEN             a front that listens

By default the client asks for the newest version of the protocol; the variable
MODE=legacy makes it do the handshake of the older ones. It prints what was
negotiated and "all tools answer".
"""

import asyncio
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

TOOLS = """archive_episode delete_memory get_contents get_profile list_episodes list_memories lock_memory
recall recall_with_context store unlock_memory update_memory update_profile""".split()

LANGUAGES = {
    "en": ("The float switch on pump P2 was jammed.", "what was wrong with the float switch?"),
    "ja": ("ポンプP2のフロートスイッチが固着していた。", "フロートスイッチの問題は何でしたか"),
    "zh": ("水泵P2的浮球开关卡住了。", "浮球开关出了什么问题"),
}


async def use(client: Client) -> None:
    listed = sorted(tool.name for tool in (await client.list_tools()).tools)
    assert listed == TOOLS, listed
    assert client.instructions, "no instructions"
    called = set()
    for agent, (fact, question) in LANGUAGES.items():

        async def ask(name: str, **arguments):
            called.add(name)
            answer = await client.call_tool(name, {"agent_id": agent, **arguments})
            assert not answer.is_error, (name, answer)
            return answer.structured_content

        stored = await ask("store", content=fact, id="m1", source={"id": "s1"}, timestamp="2026-11-01T10:00:00+09:00")
        assert stored["result"] == "stored", stored
        recalled = await ask("recall", query=question)
        assert recalled["messages"][-1]["content"] == fact and recalled["order"] == "best_last", recalled
        merged = await ask("recall_with_context", query=question, external_context=[{"role": "user", "content": question, "timestamp": "2026-11-02T10:00:00Z"}])
        assert [m["content"] for m in merged["messages"]] == [fact, question], merged
        contents = await ask("get_contents", refs=[stored["ref"], "mem:99999"])
        assert contents["items"][0]["content"] == fact and contents["missing"] == ["mem:99999"], contents
        episode = await ask("archive_episode", summary=question, keywords="pump, float", resolved=True)
        assert (await ask("list_episodes"))["episodes"][0]["id"] == episode["episode_id"]
        await ask("update_memory", memory_id=stored["id"], content=fact + " 2")
        assert (await ask("list_memories", limit=1))["memories"][0]["content"] == fact + " 2"
        await ask("update_profile", profile=fact)
        assert (await ask("get_profile"))["profile"] == fact
        await ask("lock_memory", memory_id=stored["id"])
        refused = await client.call_tool("delete_memory", {"agent_id": agent, "memory_id": stored["id"]})
        assert refused.is_error and refused.structured_content["field"] == "memory_id", refused
        await ask("unlock_memory", memory_id=stored["id"])
        assert (await ask("delete_memory", memory_id=stored["id"]))["deleted_id"] == stored["id"]
    assert sorted(called) == TOOLS, called


async def main() -> None:
    mode = os.environ.get("MODE", "auto")
    if sys.argv[1] == "http":
        async with httpx2.AsyncClient(headers={"Authorization": "Bearer " + sys.argv[3]}) as http:
            async with Client(streamable_http_client(sys.argv[2], http_client=http), mode=mode) as client:
                print("negotiated", client.protocol_version)
                await use(client)
    else:
        server = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:], env=dict(os.environ))
        async with Client(server, mode=mode) as client:
            print("negotiated", client.protocol_version)
            await use(client)
    print("all tools answer")


asyncio.run(main())
