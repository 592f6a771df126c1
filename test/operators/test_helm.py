# SPDX-License-Identifier: ISC
"""The chart of etc/helm, rendered by Helm: its objects fit together, pgweir accepts the configuration,
and values that make no sense are refused. An API server takes its objects, and those of etc/kubernetes.
"""

import contextlib
import copy
import json
import re
import shlex
import shutil
import subprocess
import urllib.error

import pytest
import yaml

from e2e.test_containers import ETC, objects

from . import build
from .kubernetes import TOKEN, Kubernetes, need_etcd

CHART = f"{ETC}/helm/pgweir"
SECRETS = {"users": "their-users", "clientTls": "their-tls", "serverCa": "their-ca", "peers": "their-peers"}
EVERYTHING = {
    "databases": {"*": "host=db", 'a "b"': "host=db dbname=b"},
    "settings": {"auth_type": "scram-sha-256", "max_client_conn": 1000000, "client_tls_sslmode": "require",
                 "server_tls_sslmode": "verify-ca", "fair_by": "user"},
    "sections": {"users": "report = pool_size=2\n"},
    "secrets": SECRETS,
    "shutdown": {"accept": 7, "drain": 90, "preStop": ["sleep", "3"], "preStopSeconds": 3},
    "metrics": {"enabled": True, "serviceMonitor": {"enabled": True, "labels": {"release": "monitoring"}}},
    "autoscaling": {"enabled": True, "minReplicas": 3},
    "env": [{"name": "PGWEIR_SET_verbose", "value": "1"}],
    "nodeSelector": {"disk": "ssd"}, "podAnnotations": {"team": "db"},
}

pytestmark = pytest.mark.limit(build.LIMIT)


@pytest.fixture(scope="module")
def helm():
    return build.need("helm")


@pytest.fixture
def rendered(helm, tmp_path):
    """Renders the chart with these values; returns the CompletedProcess."""
    def do(**values):
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        return subprocess.run([helm, "template", "shop", CHART, "--namespace", "sales",
                               "--kube-version", "1.31", "-f", file], capture_output=True,
                              text=True, timeout=120, check=False)
    return do


@pytest.fixture
def render(rendered):
    """The objects: by kind, Services by name."""
    def do(**values):
        done = rendered(**values)
        assert done.returncode == 0, done.stderr
        made = [thing for thing in yaml.safe_load_all(done.stdout) if thing]
        return {thing["metadata"]["name"] if thing["kind"] == "Service" else thing["kind"]: thing
                for thing in made}
    return do


def pod_of(things):
    spec = things["Deployment"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    return spec, container


def ini_of(things):
    return things["ConfigMap"]["data"]["pgweir.ini"]


def test_lint(helm):
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def test_it_is_in_step_with_the_sample(render):
    """etc/kubernetes is the same without Helm."""
    things = render()
    assert set(things) == {"ConfigMap", "Deployment", "shop-pgweir", "PodDisruptionBudget"}
    spec, ours = pod_of(things)
    sample, theirs = pod_of(objects())
    for name in ("readinessProbe", "livenessProbe", "securityContext", "resources", "ports"):
        assert ours[name] == theirs[name], name
    for name in ("securityContext", "terminationGracePeriodSeconds"):
        assert spec[name] == sample[name], name
    assert ours["image"].partition(":")[2] == theirs["image"].partition(":")[2]
    assert things["Deployment"]["spec"]["replicas"] == objects()["Deployment"]["spec"]["replicas"]
    lines = {line for line in ini_of(objects()).splitlines() if " = " in line and line[0] != ";"}
    assert lines - set(ini_of(things).splitlines()) == {"admin_users = postgres"}


@pytest.mark.parametrize("values", ({}, EVERYTHING), ids=("defaults", "everything"))
def test_pgweir_accepts_the_configuration(render, make_pgweir, account, own, ca, values):
    things, weir = render(**values), make_pgweir()
    text = ini_of(things)
    assert "e+0" not in text
    place = {"users/userlist.txt": weir.userlist, "client-tls/tls.crt": own.cert, "client-tls/tls.key": own.key,
             "server-ca/ca.crt": ca.cert, "peers/secret": weir.userlist}
    _, container = pod_of(things)
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    for path in re.findall(r"/etc/pgweir/(\S+)", text):
        assert f"/etc/pgweir/{path.partition('/')[0]}" in mounted
        text = text.replace(f"/etc/pgweir/{path}", place[path])
    ini = account.write(f"{weir.dir}/chart.ini", text.replace("/run/pgweir", weir.dir))
    done = weir.run("--check", ini)
    assert done.returncode == 0 and "unknown" not in done.stderr, done.stderr
    assert container["args"] == ["/etc/pgweir/config/pgweir.ini"]


def test_everything(render):
    things = render(**EVERYTHING)
    spec, container = pod_of(things)
    assert {volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume} == {
        *SECRETS.values()}
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in spec["volumes"]}
    assert spec["terminationGracePeriodSeconds"] > 7 + 90 + 3
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "3"]
    assert container["env"] == EVERYTHING["env"] and spec["nodeSelector"] == {"disk": "ssd"}
    text = ini_of(things)
    for line in ("max_client_conn = 1000000", "shutdown_accept = 7s", "shutdown_drain = 90s",
                 "peers_dns = shop-pgweir-peers.sales.svc:6432", "metrics_listen = 0.0.0.0:9127",
                 '"a ""b""" = host=db dbname=b', "[users]\nreport = pool_size=2"):
        assert line in text, text
    peers = things["shop-pgweir-peers"]["spec"]
    assert peers["clusterIP"] == "None" and peers["publishNotReadyAddresses"]
    assert "replicas" not in things["Deployment"]["spec"]
    scaler = things["HorizontalPodAutoscaler"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 6)
    assert scaler["scaleTargetRef"]["name"] == things["Deployment"]["metadata"]["name"]
    # Each selector finds what it is for, and the monitor one Service only.
    labels = things["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    for selector in (things["Deployment"]["spec"]["selector"]["matchLabels"], peers["selector"],
                     things["shop-pgweir"]["spec"]["selector"],
                     things["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
        assert selector and selector.items() <= labels
    monitor = things["ServiceMonitor"]
    assert monitor["metadata"]["labels"]["release"] == "monitoring"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert [name for name in ("shop-pgweir", "shop-pgweir-peers")
            if wanted <= things[name]["metadata"]["labels"].items()] == ["shop-pgweir-peers"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in peers["ports"]}


def test_another_configuration_is_a_rolling_update(render):
    def checksum(**values):
        template = render(**values)["Deployment"]["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]
    assert checksum() == checksum(replicas=3) != checksum(settings={"default_pool_size": 11})


def test_one_pod_can_be_moved(render):
    assert "PodDisruptionBudget" not in render(replicas=1)
    assert "PodDisruptionBudget" not in render(minAvailable=0)


# -- an API server -------------------------------------------------------------------------------

PLACES = {"ConfigMap": "api/v1", "Service": "api/v1", "Deployment": "apis/apps/v1",
          "PodDisruptionBudget": "apis/policy/v1", "HorizontalPodAutoscaler": "apis/autoscaling/v2"}
NO_MONITOR = {**EVERYTHING, "metrics": {"enabled": True}}  # it is defined by Prometheus' operator


@pytest.fixture(scope="module")
def kubernetes(ca, tmp_path_factory):
    need_etcd()
    folder = str(tmp_path_factory.mktemp("kubernetes"))
    with contextlib.closing(Kubernetes(folder, build.need("kube-apiserver"), ca, "127.0.0.1")) as made:
        yield made


def place_of(kind):
    return f"/{PLACES[kind]}/namespaces/default/{kind.lower()}s"


def judge(kubernetes, thing):
    """What the API server would say to it, with not one field that it does not know; None: it takes it."""
    try:
        kubernetes.do("POST", f"{place_of(thing['kind'])}?dryRun=All&fieldValidation=Strict", thing)
    except urllib.error.HTTPError as refused:
        return json.load(refused)["message"]
    return None


@pytest.mark.parametrize("values", ({}, NO_MONITOR), ids=("defaults", "everything"))
def test_the_server_takes_each_object(kubernetes, render, values):
    things = render(**values)
    assert {name: judge(kubernetes, thing) for name, thing in things.items()} == dict.fromkeys(things)
    del things["Deployment"]["spec"]["selector"]
    things["ConfigMap"]["dota"] = {}
    assert "selector" in judge(kubernetes, things["Deployment"])
    assert "dota" in judge(kubernetes, things["ConfigMap"])


def test_the_server_takes_the_objects_without_helm(kubernetes):
    things = objects()
    assert {name: judge(kubernetes, thing) for name, thing in things.items()} == dict.fromkeys(things)


@pytest.fixture
def release(kubernetes, helm, ca, tmp_path):
    """helm with the API server: release(command, values): what it says."""
    def do(*args, **values):
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        words = (*args, CHART, "-f", file) if args[0] in ("install", "upgrade") else args
        return subprocess.run(
            [helm, *words, "--kube-apiserver", f"https://127.0.0.1:{kubernetes.port}", "--kube-token", TOKEN,
             "--kube-ca-file", ca.cert], capture_output=True, text=True, timeout=120, check=False)
    yield do
    do("uninstall", "shop", "--ignore-not-found")


def test_install_upgrade_rollback(kubernetes, release):
    def good(*args, **values):
        done = release(*args, **values)
        assert done.returncode == 0 and not done.stderr, done.stderr

    def there(kind, name="shop-pgweir"):
        return kubernetes.do("GET", f"{place_of(kind)}/{name}")

    def size():
        return re.search(r"default_pool_size = (\d+)", there("ConfigMap")["data"]["pgweir.ini"])[1]

    good("install", "shop", "--dry-run=server")
    with pytest.raises(urllib.error.HTTPError):
        there("Deployment")
    good("install", "shop")
    assert size() == "10" and there("Deployment")["spec"]["replicas"] == 2
    before = there("Deployment")["spec"]["template"]["metadata"]["annotations"]
    good("upgrade", "shop", **{**NO_MONITOR, "settings": {"default_pool_size": 11}})
    assert size() == "11" and there("HorizontalPodAutoscaler")["spec"]["minReplicas"] == 3
    assert there("Service", "shop-pgweir-peers")["spec"]["clusterIP"] == "None"
    assert there("Deployment")["spec"]["template"]["metadata"]["annotations"] != before
    refused = release("upgrade", "shop", settings={"listen_port": 5432})
    assert refused.returncode != 0 and "listen_port" in refused.stderr
    assert size() == "11"
    good("rollback", "shop", "1")
    assert size() == "10" and there("Deployment")["spec"]["template"]["metadata"]["annotations"] == before
    good("uninstall", "shop")
    with pytest.raises(urllib.error.HTTPError):
        there("ConfigMap")


def test_the_commands_of_the_page(kubernetes, release, helm, ca, tmp_path):
    """Those of doc/kubernetes.md for Helm, word for word."""
    if not shutil.which("kubectl"):
        pytest.skip("there is no kubectl")
    (tmp_path / "userlist.txt").write_text('"alice" "secret"\n', encoding="utf-8")
    (tmp_path / "etc").symlink_to(ETC)
    server = f"https://127.0.0.1:{kubernetes.port}"
    options = {"kubectl": ("--server", server, "--token", TOKEN, "--certificate-authority", ca.cert),
               "helm": ("--kube-apiserver", server, "--kube-token", TOKEN, "--kube-ca-file", ca.cert)}
    with open(f"{ETC}/../doc/kubernetes.md", encoding="utf-8") as file:
        commands = re.search(r"```\n(kubectl .*?)```", file.read(), re.DOTALL)[1].splitlines()
    assert len(commands) == 2
    for command in commands:
        name, *words = shlex.split(command)
        done = subprocess.run([{"helm": helm}.get(name, name), *words, *options[name]], capture_output=True,
                              text=True, timeout=120, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
    assert kubernetes.do("GET", "/api/v1/namespaces/default/secrets/pgweir-users")["data"].keys() == {"userlist.txt"}
    made = kubernetes.do("GET", f"{place_of('ConfigMap')}/shop-pgweir")["data"]["pgweir.ini"]
    assert '"app" = host=db port=5432' in made


# -- values that make no sense -------------------------------------------------------------------


@pytest.mark.parametrize("path, value, says", (
    ("replica", 3, "replica"),
    ("replicas", 0, "replicas"),
    ("replicas", "two", "replicas"),
    ("databases.app", "host=a\n[pgbouncer]", "databases"),
    ("settings.listen_port", 5432, "listen_port"),
    ("settings.default_pool_sizes ", 5, "settings"),
    ("settings.pool_mode", "session\nverbose = 3", "settings"),
    ("sections.pgbouncer", "verbose = 3", "sections"),
    ("secrets.users", "", "users"),
    ("secrets.peers", "My Secret", "peers"),
    ("secrets.server_ca", "x", "server_ca"),
    ("shutdown.drain", 0, "drain"),
    ("shutdown.drain", "60s", "drain"),
    ("service.type", "ExternalName", "type"),
    ("metrics.serviceMonitor.interval", "often", "interval"),
    ("metrics.serviceMonitor.enabled", True, "metrics.serviceMonitor needs metrics.enabled"),
    ("autoscaling", {"enabled": True, "minReplicas": 9}, "minReplicas is more than"),
    ("autoscaling.cpuPercent", 150, "cpuPercent"),
    ("minAvailable", 2, "minAvailable must be less"),
    ("env", ["PGWEIR_SET_verbose=1"], "env"),
    ("image.tags", "1", "tags"),
))
def test_values_that_make_no_sense(rendered, path, value, says):
    values = at = {}
    *outer, last = path.split(".")
    for name in outer:
        at = at.setdefault(name, {})
    at[last] = copy.copy(value)
    done = rendered(**values)
    assert done.returncode != 0 and says in done.stderr, done.stderr
