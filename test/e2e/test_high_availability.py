# SPDX-License-Identifier: ISC
"""The example for HAProxy in doc/high-availability.md, with other addresses and ports."""

import os
import re
import shutil

import psycopg
import pytest

from .kit.account import free_port
from .kit.wait import LIMIT, wait_until
from .test_docs import TOP

HAPROXY = shutil.which("haproxy") or "/usr/sbin/haproxy"
PAGE = os.path.join(TOP, "doc/high-availability.md")


def example(port, poolers):
    """The configuration of the page."""
    with open(PAGE, encoding="utf-8") as page:
        text = re.search(r"### HAProxy\n\n```\n(.*?)```", page.read(), re.S).group(1)
    text = text.replace("bind :5432", f"bind 127.0.0.1:{port}")
    for number, (weir, metrics) in enumerate(poolers, 1):
        text, count = re.subn(rf"(server pool{number}) 10\.0\.0\.1{number}:6432 check port 9127",
                              rf"\1 127.0.0.1:{weir.port} check port {metrics}", text)
        assert count == 1
    return text


@pytest.fixture
def poolers(pgweir):
    made = []
    for _ in range(2):
        metrics = free_port()
        made.append((pgweir(proxy_protocol="accept", proxy_protocol_from="127.0.0.1",
                            metrics_listen=f"127.0.0.1:{metrics}"), metrics))
    return made


@pytest.mark.skipif(not os.path.exists(HAPROXY), reason="there is no haproxy")
def test_a_pooler_behind_haproxy_may_stop(poolers, account):
    port = free_port()
    path = account.write(f"{poolers[0][0].dir}/haproxy.cfg", example(port, poolers))
    proxy = account.popen([HAPROXY, "-db", "-f", path])

    def serves():
        """A new client gets an answer."""
        try:
            with psycopg.connect(host="127.0.0.1", port=port, user="alice", dbname="app",
                                 connect_timeout=5) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    try:
        wait_until(serves, what="the first client")
        served = [weir.log.count("login attempt: db=app") for weir, _ in poolers]
        for _ in range(4):
            assert serves()
        for (weir, _), before in zip(poolers, served):
            assert weir.log.count("login attempt: db=app") > before
        poolers[0][0].stop()
        wait_until(serves, what="a client of the second pooler")
        wait_until(lambda: all(serves() for _ in range(4)), what="the first one to be left out")
    finally:
        proxy.terminate()
        proxy.wait(LIMIT)
