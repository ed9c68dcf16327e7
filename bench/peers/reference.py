"""The memory server CPersona on one database file, asked on request, for `recalld bench
peers --task recall`.

usage: reference.py, with CPERSONA_DB_PATH and its settings in the environment

Lines of JSON in and out, as in peer.py:

  {"op": "fill", "texts", "vectors", "dims"}
      texts is a file of one JSON object per record: content, source, timestamp; vectors
      one of records × dims float32
  {"op": "recall", "agent", "query", "limit"}
      asks twice and times the second call, whose query's vector is in its cache
  {"op": "memory"}
"""

import asyncio
import json
import os
import sys
import time


def fill(request):
    """Rows and vectors, straight into its own table."""
    import sqlite3

    width = request["dims"] * 4
    db = sqlite3.connect(os.environ["CPERSONA_DB_PATH"])
    db.execute("PRAGMA synchronous = OFF")
    with open(request["texts"], encoding="utf-8") as texts, open(request["vectors"], "rb") as vectors, db:
        for line in texts:
            r = json.loads(line)
            db.execute(
                "INSERT INTO memories (agent_id, content, source, timestamp, created_at, embedding) VALUES (?, ?, ?, ?, ?, ?)",
                (request["agent"], r["content"], json.dumps(r["source"]), r["timestamp"], r["timestamp"][:19].replace("T", " "), vectors.read(width)),
            )
    db.close()


async def recall(request):
    from cpersona import memory_handlers

    for _ in range(2):
        began = time.perf_counter()
        answer = await memory_handlers.do_recall(request["agent"], request["query"], request["limit"])
        took = time.perf_counter() - began
    return {"ms": took * 1000, "refs": [m.get("ref", "") for m in answer.get("messages", [])]}


def resident():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1000
    return 0


async def answer(request):
    if request["op"] == "fill":
        fill(request)
        return {}
    if request["op"] == "recall":
        return await recall(request)
    if request["op"] == "memory":
        return {"rss_mb": resident()}
    raise ValueError(f"no operation {request['op']}")


async def serve(say):
    from importlib.metadata import version

    from cpersona import database, vector

    await database.init_db()
    vector._embedding_client = vector.build_embedding_client()
    if vector._embedding_client is not None:
        await vector._embedding_client.initialize()
    say({"version": version("cpersona")})
    try:
        for line in sys.stdin:
            try:
                reply = await answer(json.loads(line))
            except Exception as problem:
                reply = {"error": f"{type(problem).__name__}: {problem}"}
            say(reply)
    finally:
        await database.close_db()


def main():
    # What libraries print must not stand between answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(line):
        out.write(json.dumps(line) + "\n")
        out.flush()

    try:
        asyncio.run(serve(say))
    except ImportError as missing:
        say({"missing": str(missing)})


main()
