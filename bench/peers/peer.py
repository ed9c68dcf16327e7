"""One library, searched on request, for `recalld bench peers`.

usage: peer.py NAME

Every line on standard input is a JSON request, every line on standard output its
answer. The first line out says which version answers, or that the library is missing.
Times are of the search alone, taken in here: neither start nor transfer is in them.

  {"op": "load", "task": "signs" | "records", "rows", "dims", "k", "vectors", "queries", "folder"}
      vectors is a file of rows × dims, bits or float32; queries one of the same form
  {"op": "search", "from", "count", "threads"}
      the queries from..from+count-1, asked together; ids and distances, best first
  {"op": "memory"}
      resident MB of this process
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor


class Peer:
    def __init__(self):
        self.pools = {}

    def load(self, request):
        import numpy as np

        self.task, self.rows, self.dims, self.k = request["task"], request["rows"], request["dims"], request["k"]
        self.folder = request["folder"]
        width, kind = (self.dims // 8, np.uint8) if self.task == "signs" else (self.dims, np.float32)
        self.vectors = np.fromfile(request["vectors"], dtype=kind).reshape(self.rows, width)
        self.queries = np.fromfile(request["queries"], dtype=kind).reshape(-1, width)
        self.build()

    def build(self):
        pass

    def pool(self, threads):
        if threads not in self.pools:
            self.pools[threads] = ThreadPoolExecutor(threads)
        return self.pools[threads]

    def spread(self, work, items, threads):
        """The results of work for every item, in order, by so many threads."""
        if threads == 1 or len(items) == 1:
            return [work(item) for item in items]
        return list(self.pool(threads).map(work, items))


class Numpy(Peer):
    """The array of the reference: bytes, XOR, bitwise_count, a sum, a partition."""

    @staticmethod
    def version():
        import numpy

        return numpy.__version__

    def build(self):
        from threadpoolctl import ThreadpoolController

        self.blas = ThreadpoolController()

    def search(self, first, count, threads):
        import numpy as np

        if self.task == "records":
            with self.blas.limit(limits=threads, user_api="blas"):
                scores = self.vectors @ self.queries[first : first + count].T
                return [self.best(-scores[:, i]) for i in range(count)]
        # numpy has no threads here: one query is cut into ranges of rows, several go side by side.
        queries = range(first, first + count)
        if count > 1:
            return self.spread(lambda q: self.best(self.distances(q, 0, self.rows)), queries, threads)
        edges = [self.rows * i // threads for i in range(threads + 1)]
        parts = self.spread(lambda e: self.distances(first, *e), list(zip(edges, edges[1:])), threads)
        return [self.best(np.concatenate(parts) if threads > 1 else parts[0])]

    def distances(self, query, start, end):
        import numpy as np

        return np.bitwise_count(np.bitwise_xor(self.vectors[start:end], self.queries[query])).sum(axis=1, dtype=np.uint64)

    def best(self, keys):
        import numpy as np

        k = min(self.k, len(keys))
        near = np.argpartition(keys, k - 1)[:k]
        near = near[np.lexsort((near, keys[near]))]
        return near, keys[near]


class NumpyWords(Numpy):
    """The same over words of 64 bits, which numpy counts faster than bytes."""

    def build(self):
        import numpy as np

        super().build()
        self.vectors, self.queries = self.vectors.view(np.uint64), self.queries.view(np.uint64)

    def distances(self, query, start, end):
        import numpy as np

        return np.bitwise_count(np.bitwise_xor(self.vectors[start:end], self.queries[query])).sum(axis=1, dtype=np.uint16)


class Faiss(Peer):
    heap = True

    @staticmethod
    def version():
        import faiss

        return faiss.__version__

    def build(self):
        import faiss

        if self.task == "signs":
            self.index = faiss.IndexBinaryFlat(self.dims)
            self.index.use_heap = self.heap
        else:
            self.index = faiss.IndexFlatIP(self.dims)
        self.index.add(self.vectors)
        self.vectors = None

    def search(self, first, count, threads):
        import faiss

        faiss.omp_set_num_threads(threads)
        distances, ids = self.index.search(self.queries[first : first + count], self.k)
        if self.task == "records":
            distances = -distances
        return list(zip(ids, distances))


class FaissCounting(Faiss):
    """Its other way to select: counting instead of a heap."""

    heap = False


class FaissHNSW(Faiss):
    def build(self):
        import faiss

        self.index = faiss.IndexHNSWFlat(self.dims, 32, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efSearch = max(128, 2 * self.k)
        self.index.add(self.vectors)
        self.vectors = None


class Usearch(Peer):
    @staticmethod
    def version():
        import usearch

        return usearch.__version__

    def search(self, first, count, threads):
        from usearch.index import MetricKind, search

        metric = MetricKind.Hamming if self.task == "signs" else MetricKind.IP
        found = search(self.vectors, self.queries[first : first + count], self.k, metric, exact=True, threads=threads)
        return self.rows_of(found, count)

    def rows_of(self, found, count):
        keys, distances = found.keys.reshape(count, -1), found.distances.reshape(count, -1)
        if self.task == "records":
            distances = distances - 1  # it gives 1 - the product
        return list(zip(keys, distances))


class UsearchHNSW(Usearch):
    def build(self):
        import numpy as np
        from usearch.index import Index

        self.index = Index(ndim=self.dims, metric="ip", dtype="f32", expansion_search=max(128, 2 * self.k))
        self.index.add(np.arange(self.rows), self.vectors)
        self.vectors = None

    def search(self, first, count, threads):
        return self.rows_of(self.index.search(self.queries[first : first + count], self.k, threads=threads), count)


class SQLiteVec(Peer):
    """vec0 in a file of its own, a connection for each thread."""

    @staticmethod
    def version():
        import apsw
        import sqlite_vec

        return f"{sqlite_vec.__version__} on SQLite {apsw.sqlite_lib_version()}"

    def connect(self):
        import apsw
        import sqlite_vec

        db = apsw.Connection(os.path.join(self.folder, "vec.db"))
        db.enable_load_extension(True)
        db.load_extension(sqlite_vec.loadable_path())
        db.execute("PRAGMA cache_size = -2000000; PRAGMA mmap_size = 16000000000; PRAGMA synchronous = OFF")
        return db

    def build(self):
        db = self.connect()
        column, value = (f"bit[{self.dims}]", "vec_bit(?)") if self.task == "signs" else (f"float[{self.dims}] distance_metric=cosine", "?")
        db.execute(f"CREATE VIRTUAL TABLE v USING vec0(e {column})")
        with db:
            db.executemany(f"INSERT INTO v (rowid, e) VALUES (?, {value})", ((i, self.vectors[i].tobytes()) for i in range(self.rows)))
        self.sql = f"SELECT rowid, distance FROM v WHERE e MATCH {value} AND k = ?"
        self.vectors = None
        self.connections = [db]

    def search(self, first, count, threads):
        while len(self.connections) < threads:
            self.connections.append(self.connect())
        asked = [range(first + t, first + count, threads) for t in range(threads)]
        answers = self.spread(lambda t: [self.ask(self.connections[t], q) for q in asked[t]], range(threads), threads)
        return [answers[i % threads][i // threads] for i in range(count)]

    def ask(self, db, query):
        rows = db.execute(self.sql, (self.queries[query].tobytes(), self.k)).fetchall()
        shift = 0 if self.task == "signs" else 1  # it gives 1 - the cosine
        return [r[0] for r in rows], [r[1] - shift for r in rows]


PEERS = {
    "numpy": Numpy,
    "numpy-words": NumpyWords,
    "faiss": Faiss,
    "faiss-counting": FaissCounting,
    "faiss-hnsw": FaissHNSW,
    "usearch": Usearch,
    "usearch-hnsw": UsearchHNSW,
    "sqlite-vec": SQLiteVec,
}


def resident():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1000
    return 0


def answer(peer, request):
    if request["op"] == "load":
        began = time.perf_counter()
        peer.load(request)
        return {"build_s": time.perf_counter() - began}
    if request["op"] == "search":
        began = time.perf_counter()
        found = peer.search(request["from"], request["count"], request["threads"])
        took = time.perf_counter() - began
        return {
            "ms": took * 1000,
            "ids": [[int(i) for i in ids] for ids, _ in found],
            "distances": [[float(d) for d in distances] for _, distances in found],
        }
    if request["op"] == "memory":
        return {"rss_mb": resident()}
    raise ValueError(f"no operation {request['op']}")


def main():
    # What libraries print must not stand between answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(line):
        out.write(json.dumps(line) + "\n")
        out.flush()

    try:
        peer = PEERS[sys.argv[1]]()
        say({"version": peer.version()})
    except ImportError as missing:
        say({"missing": str(missing)})
        return
    for line in sys.stdin:
        try:
            reply = answer(peer, json.loads(line))
        except Exception as problem:
            reply = {"error": f"{type(problem).__name__}: {problem}"}
        say(reply)


main()
