"""The health check of the containers: `python docker/healthy.py ADDRESS [PART]`, without any library.

An address `tcp://HOST:PORT` is healthy when it accepts a connection, one of HTTP when it answers. With PART the answer
is Airflow's document of health, in which this part has to be healthy.
"""

import json
import socket
import sys
import urllib.request
from urllib.parse import urlsplit

address, part = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
place = urlsplit(address)
if place.scheme == "tcp":
    socket.create_connection((place.hostname or "", place.port or 0), timeout=5).close()
else:
    with urllib.request.urlopen(address, timeout=5) as answer:
        said = answer.read()
    if part and (status := json.loads(said)[part]["status"]) != "healthy":
        sys.exit(f"{part} is {status}")
