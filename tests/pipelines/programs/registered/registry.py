"""A schema registry, as far as a pipeline needs one: schemas are registered, given by their ids,
and outlive a crash.
"""

import http.server
import json
import sys
from pathlib import Path

KEPT, PORT = Path(sys.argv[1]) / "schemas.json", int(sys.argv[2])
SCHEMAS = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with JSON."""

    def do_POST(self) -> None:
        """Register a schema; one that is there keeps its id."""
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        if schema not in SCHEMAS:
            SCHEMAS.append(schema)
            whole = KEPT.with_suffix(".new")
            whole.write_text(json.dumps(SCHEMAS), encoding="utf-8")
            whole.replace(KEPT)
        self.answer({"id": SCHEMAS.index(schema) + 1})

    def do_GET(self) -> None:
        """Give a schema by its id."""
        number = int(self.path.rpartition("/")[2])
        self.answer({"schema": SCHEMAS[number - 1]} if 0 < number <= len(SCHEMAS) else None)

    def answer(self, value) -> None:
        """Send it, or say that there is none."""
        self.send_response(404 if value is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(value or {"error_code": 40403}).encode())


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
