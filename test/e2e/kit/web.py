# SPDX-License-Identifier: ISC
"""An HTTP client for the web server of metrics_listen."""

import http.client
import json
import socket

from .wait import LIMIT


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.body = response.read()

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


class Web(http.client.HTTPConnection):
    """One connection, which stays open from request to request. `place`: a port, or a path."""

    def __init__(self, place, host="127.0.0.1", context=None):
        super().__init__(host, place if isinstance(place, int) else 1, timeout=LIMIT)
        self.place, self.context = place, context

    def connect(self):
        if isinstance(self.place, int):
            super().connect()
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(LIMIT)
            self.sock.connect(self.place)
        if self.context:
            self.sock = self.context.wrap_socket(self.sock, server_hostname=self.host)

    def ask(self, path, method="GET", **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.request(method, path, headers=headers)
        return Answer(self.getresponse())

    def show(self, words):
        """A table as the console gives it: a list of rows by the names of the columns."""
        name, *arguments = words.split()
        query = "&".join(f"argument={word}" for word in arguments)
        answer = self.ask(f"/api/v1/show/{name}" + (f"?{query}" if query else ""))
        assert answer.status == 200, answer.text
        names = [column["name"] for column in answer.json["columns"]]
        return [dict(zip(names, row, strict=True)) for row in answer.json["rows"]]


def talk(port, request, host="127.0.0.1"):
    """Sends these bytes and returns all that comes until the connection ends."""
    with socket.create_connection((host, port), timeout=LIMIT) as sock:
        sock.sendall(request)
        answer = b""
        while part := sock.recv(65536):
            answer += part
        return answer
