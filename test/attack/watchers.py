# SPDX-License-Identifier: ISC
"""What only looks, and what cancels at a high rate: a monitoring system, a live page, a crowd with
cancel requests."""

import http.client
import threading

from e2e.kit import prometheus
from e2e.kit.web import Web
from e2e.kit.wire import Closed, query, send_cancel

from .honest import Honest
from .scene import Actor, Finding

# What the live page asks for each second, and what is made of several loops.
TABLES = ("READY", "POOLS", "WAITING", "LATENCY", "HISTORY", "STATEMENTS", "APPLICATIONS", "SQLSTATES",
          "CLIENTS", "SERVERS", "LOOPS", "LIMITS", "ERRORS", "EVENTS", "HISTOGRAMS")


class Scraper(Actor):
    """Reads /metrics as Prometheus does, and tables as the live page does, each second."""

    pause = 1

    def step(self):
        try:
            web = Web(self.scene.web_port)
            metrics, _ = prometheus.parse(self.ask(web, "/metrics").text)
            if metrics["pgbouncer_up"] != {(): 1}:
                raise Finding(f"pgbouncer_up is {metrics['pgbouncer_up']}")
            for table in self.rng.sample(TABLES, 5):
                self.ask(web, f"/api/v1/show/{table}")
            self.ask(web, "/readyz", (200, 503))
            self.scene.count("scrapes")
            web.close()
        except (OSError, http.client.HTTPException):
            # The process has handed over, or the next one does not listen yet.
            self.scene.count("scrapes that met a take-over")

    @staticmethod
    def ask(web, path, allowed=(200,)):
        answer = web.ask(path)
        if answer.status not in allowed:
            raise Finding(f"{path} has the status {answer.status}: {answer.text[:200]}")
        return answer


class Canceler(Honest):
    """Sends many cancel requests at the same time, with its own key and with keys of nobody."""

    pause = 0.2

    def storm(self):
        self.say(query("SELECT pg_sleep(60)"))
        self.may_be_canceled = True
        try:
            crowd = [threading.Thread(target=self.send, args=(key,), daemon=True)
                     for key in [self.wire.key] * 10 + [self.foreign_key() for _ in range(10)]]
            for one in crowd:
                one.start()
            for one in crowd:
                one.join()
            self.cancel_what_runs()
        finally:
            self.may_be_canceled = False

    def foreign_key(self):
        key = bytearray(self.wire.key)
        for _ in range(3):
            key[self.rng.randrange(len(key))] ^= self.rng.randrange(1, 256)
        return bytes(key)

    def send(self, key):
        try:
            send_cancel(self.scene.weir.address, key)
        except (Closed, OSError):
            pass  # refused, or during a take-over

    kinds = [storm, Honest.simple, Honest.late_cancel]
