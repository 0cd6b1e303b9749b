"""Keep what is posted in a database, one row each: a server that a pipeline needs."""

import http.server
import sqlite3
import sys

FOLDER, PORT = sys.argv[1], int(sys.argv[2])


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers when a row is there."""

    def do_POST(self) -> None:
        """Add it."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with sqlite3.connect(f"{FOLDER}/rows.db") as database:
            database.execute("CREATE TABLE IF NOT EXISTS rows (number TEXT PRIMARY KEY)")
            database.execute("INSERT OR IGNORE INTO rows VALUES (?)", (body,))
        self.send_response(204)
        self.end_headers()


print("store is up", flush=True)
http.server.HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
