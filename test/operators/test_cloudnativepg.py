# SPDX-License-Identifier: ISC
"""CloudNativePG's manager as it runs in the pods of a Pooler: it reads the Pooler and its Secrets from
an API server, writes the configuration, starts /usr/bin/pgbouncer of the image, watches, reloads,
pauses, and exports metrics.

What the operator itself does is done by the test: the Secrets, the Pooler's status, and the pods.
"""

import contextlib
import glob
import json
import os
import re
import signal
import socket
import ssl
import struct
import urllib.request

import psycopg
import pytest

from e2e.kit import network
from e2e.kit.image import Container
from e2e.kit.names import NameServer
from e2e.kit.postgres import Postgres
from e2e.kit.wait import wait_until
from e2e.kit.wire import PROTOCOL_3_0, PROTOCOL_3_2, Wire, query, send_cancel
from e2e.test_drain import DRAINING, told

from . import build
from .kubernetes import DOMAIN, SERVICE_ACCOUNT, Kubernetes, Pods, need_etcd

pytestmark = [
    pytest.mark.limit(build.LIMIT),
    pytest.mark.skipif(bool(network.why_impossible()), reason=f"{network.why_impossible()}"),
]

HERE, SERVER = "10.77.0.254", "10.77.0.10"
USER = (998, 996)
POOLER = "/apis/postgresql.cnpg.io/v1/namespaces/default/poolers/pooler"
ROLE = "cnpg_pooler_pgbouncer"
FIND_USER = f"""CREATE ROLE {ROLE} LOGIN;
CREATE FUNCTION public.user_search(uname text) RETURNS TABLE (usename name, passwd text)
LANGUAGE sql SECURITY DEFINER AS
'SELECT usename, passwd FROM pg_catalog.pg_shadow WHERE usename = $1'"""
# What the pods of the Pooler have beside the operator's variables: spec.template of doc/kubernetes.md.
GIVEN = {"PGWEIR_SET_console_version": "1.25", "PGWEIR_SET_shutdown_drain": "60s",
         "PGWEIR_SET_shutdown_drain_signals": "SIGINT", "PGWEIR_SET_peers_dns": "pooler-peers:5432",
         "PGWEIR_SET_peers_secret_file": "/etc/pgweir/peers/secret"}


def read(path):
    with open(path, "rb") as file:
        return file.read()


@pytest.fixture(scope="module")
def programs():
    need_etcd()
    return {name: build.need(name) for name in ("kube-apiserver", "manager")}


@pytest.fixture(scope="module")
def lan(programs, account):
    made = network.Network(account)
    made.join(f"{HERE}/24")
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster(lan, place, template, ca, server_certificate):
    """The Cluster's PostgreSQL, as its operator sets it up for poolers."""
    machine = lan.machine(f"{SERVER}/24")
    made = Postgres(machine, place, template, "cluster", ssl="on", listen_addresses="*",
                    ssl_cert_file=server_certificate.cert, ssl_key_file=server_certificate.key,
                    ssl_ca_file=ca.cert)
    made.host, made.port = SERVER, 5432
    rules = read(f"{made.dir}/pg_hba.conf").decode()
    machine.write(f"{made.dir}/pg_hba.conf", f"hostssl all {ROLE} all cert\n{rules}", 0o600)
    made.start()
    made.query(FIND_USER, dbname="postgres")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def kubernetes(programs, lan, ca, own, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("kubernetes"))
    with contextlib.closing(Kubernetes(folder, programs["kube-apiserver"], ca, HERE)) as made:
        definitions = build.folder_of("manager") / "config" / "crd" / "bases"
        made.define(definitions / "postgresql.cnpg.io_poolers.yaml")
        role = ca.issue("pooler-role", ROLE)
        made.secret("cluster-pooler", "kubernetes.io/tls", tls_crt=read(role.cert), tls_key=read(role.key))
        made.secret("cluster-ca", "Opaque", ca_crt=read(ca.cert))
        made.secret("cluster-server", "kubernetes.io/tls", tls_crt=read(own.cert), tls_key=read(own.key))
        yield made


def set_status(kubernetes, version="1"):
    kubernetes.patch(f"{POOLER}/status", {"status": {"secrets": {
        "clientTLS": {"name": "cluster-server", "version": version},
        "clientCA": {"name": "cluster-ca", "version": "1"},
        "serverCA": {"name": "cluster-ca", "version": "1"},
        "pgBouncerSecrets": {"authQuery": {"name": "cluster-pooler", "version": "1"}}}}})


@pytest.fixture
def pooler(kubernetes):
    """The Pooler: a function that changes its spec.pgbouncer."""
    kubernetes.do("POST", os.path.dirname(POOLER), {
        "apiVersion": "postgresql.cnpg.io/v1", "kind": "Pooler", "metadata": {"name": "pooler"},
        "spec": {"cluster": {"name": "cluster"}, "type": "rw", "instances": 2, "pgbouncer": {
            "poolMode": "transaction",
            "parameters": {"max_client_conn": "200", "default_pool_size": "10"}}}})
    set_status(kubernetes)
    yield lambda **spec: kubernetes.patch(POOLER, {"spec": {"pgbouncer": spec}})
    kubernetes.do("DELETE", POOLER)


class Pod(Container):
    def __init__(self, root, pods, machine, address, programs):
        self.address = (address, 5432)
        folder = f"{pods.folder}/{address}"
        for name in ("", "controller", "peers"):
            os.mkdir(f"{folder}/{name}")
        os.chown(f"{folder}/controller", *USER)
        with open(f"{folder}/peers/secret", "w", encoding="ascii") as file:
            file.write("a secret that all pods share\n")
        mounts = {**pods.mounts(), "/controller": f"{folder}/controller", "/etc/pgweir": folder,
                  "/mnt": os.path.dirname(programs["manager"])}
        # The init container: the manager copies itself.
        first = Container(root, USER, ["sh", "-c", "cd /mnt && ./manager bootstrap /controller/manager"],
                          tmp=False, mounts=mounts)
        assert first.finish() == 0, first.log
        first.close()
        super().__init__(
            root, USER, ["/controller/manager", "pgbouncer", "run"], tmp=False, mounts=mounts,
            network=["nsenter", f"--net=/proc/{machine.pid}/ns/net"], **pods.variables(), **GIVEN,
            NAMESPACE="default", POOLER_NAME="pooler", PGUSER="pgbouncer", PGDATABASE="pgbouncer",
            PGHOST="/controller/run")

    def ask(self, command):
        """By psql in the container, as `kubectl exec` does it: the rows, each a dictionary."""
        done = self.run("env", "PGHOST=/controller/run", "PGUSER=pgbouncer", "PGDATABASE=pgbouncer",
                        "psql", "-XA", "-P", "footer=off", "-p", "5432", "-c", command)
        assert done.returncode == 0, done.stderr
        names, *rows = (line.split("|") for line in done.stdout.splitlines())
        return [dict(zip(names, row)) for row in rows]

    def pool(self):
        """The one of SHOW POOLS that the tests' client has."""
        (found,) = [row for row in self.ask("SHOW POOLS") if row["user"] == "scram_user"]
        return found

    def setting(self, name):
        return next(row["value"] for row in self.ask("SHOW CONFIG") if row["key"] == name)

    def programs(self):
        """The names of the processes that the manager has started, by whichever of its threads."""
        paths = glob.glob(f"/proc/{self.pid()}/task/*/children")
        return [read(f"/proc/{child}/comm").decode() for path in paths for child in read(path).decode().split()]

    def connect(self, **more):
        return psycopg.connect(host=self.address[0], port=5432, user="scram_user", dbname="app",
                               password="scram secret", autocommit=True, **more)

    def login(self, **more):
        return Wire(self.address).login("scram_user", "app", "scram secret", **more)

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.address[0]}:9127/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return {name: float(value) for name, value in
                re.findall(r"^(cnpg_pgbouncer_\S+) (\S+)$", text, re.MULTILINE)}

    def certificate(self):
        """What it shows to a client, in DER."""
        with socket.create_connection(self.address, 30) as plain:
            plain.sendall(struct.pack("!II", 8, 80877103))
            assert plain.recv(1) == b"S"
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(plain) as secure:
                return secure.getpeercert(binary_form=True)

    def is_log_understood(self):
        """The manager splits the lines of the pooler's log; it says so if it cannot."""
        records = [json.loads(line) for line in self.log.splitlines() if line.startswith("{")]
        parts = [record["record"] for record in records if "record" in record]
        return bool(parts) and not any("matched" in record for record in records) and all(
            part["pid"].isdigit() and part["level"] in ("LOG", "WARNING", "ERROR") for part in parts)


@pytest.fixture
def pods(kubernetes, cluster, lan, pooler, root, ca, programs, tmp_path):
    """Starts pods: pods(count)."""
    made = Pods(kubernetes, str(tmp_path), ca, HERE)
    for name in ("/controller", SERVICE_ACCOUNT):
        os.makedirs(root + name, exist_ok=True)
    with open(f"{root}/etc/resolv.conf", "ab"):
        pass  # a place for a mount
    names, started = NameServer(HERE), []
    names.names[f"cluster-rw.{DOMAIN}"] = [SERVER]

    def start(count=1):
        addresses = [f"10.77.0.{20 + number}" for number in range(count)]
        names.names[f"pooler-peers.{DOMAIN}"] = addresses
        for address in addresses:
            machine = lan.machine(f"{address}/24")
            started.append(Pod(root, made, machine, address, programs))
        for pod in started:
            pod.wait_log("process up")
        return started

    yield start
    for pod in started:
        pod.close()
    while len(lan.machines) > 1:
        lan.machines.pop().close()
    names.close()


def test_start_and_reload(pods, pooler):
    (pod,) = pods()
    with pod.connect(sslmode="require") as client:
        assert client.execute("SELECT current_user").fetchone() == ("scram_user",)
    assert pod.programs() == ["pgbouncer\n"]
    assert pod.setting("default_pool_size") == "10"
    pooler(parameters={"default_pool_size": "7", "server_idle_timeout": "300"})
    wait_until(lambda: pod.setting("default_pool_size") == "7", what="the reload")
    assert pod.setting("server_idle_timeout") == "300"
    # A value that pgweir refuses: the manager hears of it, and what runs stays.
    pooler(parameters={"default_pool_size": "many"})
    pod.wait_log("while reloading configuration.*")
    assert pod.setting("default_pool_size") == "7"
    pooler(parameters={"default_pool_size": "8"})
    wait_until(lambda: pod.setting("default_pool_size") == "8", what="the next reload")
    assert pod.is_log_understood()


def test_its_settings_are_known(pgweir):
    """The operator's list of what a Pooler may set."""
    text = read(build.folder_of("manager") / "internal/webhook/v1/pooler_webhook.go").decode()
    listed = re.search(r"AllowedPgbouncerGeneric\w+ = \S+\{\n(.*?)\n\}", text, re.DOTALL)[1]
    names = re.findall(r'"(\w+)"', listed)
    assert len(names) > 50
    known = {row["key"] for row in pgweir().admin("SHOW CONFIG")}
    assert [name for name in names if name not in known] == []


def test_pause(pods, pooler):
    (pod,) = pods()
    client = pod.login()
    assert client.value("SELECT 1") == "1"
    pooler(paused=True)
    wait_until(lambda: {"key": "paused", "value": "yes"} in pod.ask("SHOW STATE"), what="PAUSE")
    client.send(query("SELECT 2"))
    wait_until(lambda: pod.pool()["cl_waiting"] == "1", what="a client that waits")
    pooler(paused=False)
    assert client.read_result().rows == [["2"]]
    client.close()


def test_metrics(pods):
    (pod,) = pods()
    client = pod.login()
    assert client.value("SELECT 1") == "1"
    for _ in range(2):
        found = pod.metrics()
        assert found["cnpg_pgbouncer_last_collection_error"] == 0
        assert not any("collection_errors" in name for name in found)
    assert found["cnpg_pgbouncer_collections_total"] == 2
    assert found['cnpg_pgbouncer_stats_total_query_count{database="app"}'] == 1
    assert found['cnpg_pgbouncer_pools_cl_active{database="app",user="scram_user"}'] == 1
    assert found["cnpg_pgbouncer_lists_used_clients"] >= 1
    client.close()


def test_certificates_rotated(pods, kubernetes, ca):
    (pod,) = pods()
    client = pod.login()
    fresh = ca.issue("fresh", "pooler.example")
    before = pod.certificate()
    kubernetes.secret("cluster-server", "kubernetes.io/tls", "PUT", tls_crt=read(fresh.cert),
                      tls_key=read(fresh.key))
    set_status(kubernetes, "2")
    wanted = ssl.PEM_cert_to_DER_cert(read(fresh.cert).decode())
    assert before != wanted
    wait_until(lambda: pod.certificate() == wanted, what="the new certificate")
    assert client.value("SELECT 1") == "1"
    client.close()


def test_the_end_of_a_pod(pods):
    """The kubelet sends SIGTERM to the manager, and that SIGINT to pgweir."""
    (pod,) = pods()
    client = pod.login()
    client.query("BEGIN")
    os.kill(pod.pid(), signal.SIGTERM)
    pod.wait_log("got SIGINT, shutting down, disconnecting clients within 60 s")
    client.send(query("COMMIT"))
    assert client.read_result().tags == ["COMMIT"]
    assert told(client) == DRAINING
    assert pod.finish() == 0, pod.log


@pytest.mark.parametrize("version", (PROTOCOL_3_0, PROTOCOL_3_2), ids=("3.0", "3.2"))
def test_a_cancel_reaches_the_other_pod(pods, cluster, version):
    one, two = pods(2)
    for owner, door in ((one, two), (two, one)):
        client = owner.login(version=version)
        client.send(query("SELECT pg_sleep(3600)"))
        wait_until(lambda: cluster.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE "
                                         "'SELECT pg_sleep(3600)' AND state = 'active'"), what="the query")
        send_cancel(door.address, client.key)
        assert client.read_result().error["C"] == "57014"
        client.close()
