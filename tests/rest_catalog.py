"""An Iceberg REST catalog for tests: a thread that serves the tables of a SQL catalog, to be read."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

TOKEN = "a-token-of-tests"


@contextmanager
def rest_catalog(catalog: Catalog) -> Iterator[dict[str, str]]:
    """Serve the tables of a catalog; gives the properties by which the server is reached, the token included."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Keep the log of requests out of the output of the tests."""

        def do_GET(self) -> None:
            parts = self.path.partition("?")[0].strip("/").split("/")
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self.answer(403, {"error": {"message": "no right", "type": "ForbiddenException", "code": 403}})
            elif parts == ["v1", "config"]:
                self.answer(200, {"defaults": {}, "overrides": {}})
            elif parts[:2] == ["v1", "namespaces"] and parts[3:] == ["tables"]:
                names = [{"namespace": list(one[:-1]), "name": one[-1]} for one in catalog.list_tables(parts[2])]
                self.answer(200, {"identifiers": names})
            else:
                self.answer_table((parts[2], parts[-1]))

        def answer_table(self, name: tuple[str, str]) -> None:
            try:
                table = catalog.load_table(name)
            except NoSuchTableError as error:
                self.answer(404, {"error": {"message": str(error), "type": "NoSuchTableException", "code": 404}})
                return
            metadata = json.loads(table.metadata.model_dump_json())
            self.answer(200, {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}})

        def answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {"type": "rest", "uri": f"http://127.0.0.1:{server.server_port}", "token": TOKEN}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
