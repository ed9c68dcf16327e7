"""Drives the real cpersona package on one database file, for the tests tagged extended.

usage: drive_cpersona.py COMMAND < JSON, with CPERSONA_DB_PATH and the embedding settings in
the environment; the answer is JSON on standard output.
"""

import asyncio
import json
import sys

from cpersona import admin_handlers, database, memory_handlers, vector


async def store(request):
    ids = []
    for item in request["memories"]:
        answer = await memory_handlers.do_store(
            item["agent"], item["message"], item.get("channel", ""), item.get("project", "")
        )
        ids.append(answer.get("id"))
    for item in request.get("episodes", []):
        await memory_handlers.do_archive_episode(
            item["agent"], [], item["summary"], item.get("keywords", ""), item.get("resolved"), item.get("project", "")
        )
    for item in request.get("profiles", []):
        await admin_handlers.do_update_profile(item["agent"], item["content"])
    for at in request.get("lock", []):
        await admin_handlers.do_lock_memory(ids[at], request["memories"][at]["agent"])
    return ids


async def recall(request):
    answers = []
    for query in request["queries"]:
        answer = await memory_handlers.do_recall(request["agent"], query, request.get("limit", 10))
        answers.append([m.get("content", "") for m in answer.get("messages", [])])
    return answers


async def trace(request):
    """What each stage of a recall had, by reference; terms are looked for as well."""
    answers = []
    terms = request.get("terms") or [None] * len(request["queries"])
    for query, more in zip(request["queries"], terms):
        answer = await memory_handlers.do_recall(
            request["agent"], query, request.get("limit", 10), trace=True, lexical_terms=more
        )
        traced = answer["trace"]
        answers.append({
            "shown": [m.get("ref", "") for m in answer.get("messages", [])],
            "fused": [row["ref"] for row in traced["fusion"]],
            "scores": [row["score"] for row in traced["fusion"]],
            "refused": [row["ref"] for row in traced["gate"]["decisions"] if not row["passed"]],
            "arms": {name: [row["ref"] for row in rows] for name, rows in traced["arms"].items()},
            "window": traced["config"]["scan_window"],
            "phrases": [p[1:-1].replace('""', '"') for p in memory_handlers._fts_recall_phrases(query)],
        })
    return answers


async def run(command, request):
    await database.init_db()
    vector._embedding_client = vector.build_embedding_client()
    if vector._embedding_client is not None:
        await vector._embedding_client.initialize()
    try:
        if command == "store":
            return await store(request)
        if command == "recall":
            return await recall(request)
        if command == "trace":
            return await trace(request)
        if command == "export":
            return await admin_handlers.do_export_memories(request["agent"], request["path"], True)
        if command == "import":
            return await admin_handlers.do_import_memories(request["path"], "", bool(request.get("dry_run")))
        return {}
    finally:
        await database.close_db()


json.dump(asyncio.run(run(sys.argv[1], json.load(sys.stdin))), sys.stdout, ensure_ascii=False)
