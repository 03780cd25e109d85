#!/usr/bin/env python3
"""The same reward as a server, for models that need a GPU or a machine of their own.

    python3 examples/rewards/server.py --port 8000

    [[reward]]
    name = "http"
    url = "http://127.0.0.1:8000/score"

Darkroom sends the request of reward.py by POST, without "n", several at a time. An answer other than 200,
or none within the time limit, is tried again; after that the samples are missing, with the reason.
"""
import argparse
import http.server
import json

from reward import answer

LARGEST = 64 << 20  # bytes of a request


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if length > LARGEST:
            return self.send_error(413, "the request is too large")
        try:
            body = json.dumps({"scores": answer(json.loads(self.rfile.read(length)))}).encode()
        except (ValueError, KeyError, TypeError) as e:
            return self.send_error(400, f"no request of the protocol: {e}")
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    a = argparse.ArgumentParser(description="a reward server")
    a.add_argument("--host", default="127.0.0.1")
    a.add_argument("--port", type=int, default=8000)
    o = a.parse_args()
    server = http.server.ThreadingHTTPServer((o.host, o.port), Handler)
    print(f"listening on http://{o.host}:{server.server_port}/score", flush=True)
    server.serve_forever()
