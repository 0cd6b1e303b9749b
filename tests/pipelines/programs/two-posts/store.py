"""Keep what is posted: ``/noted`` answers whether it is new, ``/booked`` keeps a row, and ``/both``
does both at once. Who asks whether the store is there is told so.
"""

import http.server
import sqlite3
import sys

FOLDER, PORT = sys.argv[1], int(sys.argv[2])
TABLES = ("noted (number TEXT PRIMARY KEY)", "booked (number TEXT)")


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers when a row is there."""

    def do_POST(self) -> None:
        """Keep what is posted, in one transaction."""
        number = self.rfile.read(int(self.headers["Content-Length"])).decode()
        new = True
        with sqlite3.connect(f"{FOLDER}/rows.db") as database:
            for table in TABLES:
                database.execute(f"CREATE TABLE IF NOT EXISTS {table}")
            if self.path != "/booked":
                note = database.execute("INSERT OR IGNORE INTO noted VALUES (?)", (number,))
                new = note.rowcount == 1
            if new and self.path != "/noted":
                database.execute("INSERT INTO booked VALUES (?)", (number,))
        self.send_response(201 if new else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """Say that the store is there."""
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        """Say nothing."""


print("store is up", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
