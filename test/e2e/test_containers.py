# SPDX-License-Identifier: ISC
"""The samples for containers: files and options they use exist, and they are consistent."""

import os
import re
import subprocess

import pytest

from .kit.daemon import find_binary

yaml = pytest.importorskip("yaml")

ETC = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", "etc"))


def read(name):
    with open(os.path.join(ETC, name), encoding="utf-8") as file:
        return file.read()


def ask(*args):
    return subprocess.run([find_binary(), *args], capture_output=True, text=True, timeout=30,
                          check=True).stdout


def objects():
    return {thing["kind"]: thing for thing in yaml.safe_load_all(read("kubernetes/pgweir.yaml"))}


def container():
    (one,) = objects()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return one


def settings_of(text):
    return dict(re.findall(r"^(\w+) = (.*)$", text.partition("[pgbouncer]")[2], re.MULTILINE))


INIS = {"compose": lambda: read("container/pgweir.ini"),
        "kubernetes": lambda: objects()["ConfigMap"]["data"]["pgweir.ini"]}


@pytest.mark.parametrize("name", ("container/Containerfile", "container/compose.yaml",
                                  "kubernetes/pgweir.yaml"))
def test_options_are_known(name):
    options = {word for word in re.findall(r"pgweir\"?,? \"?(--[a-z-]+)", read(name))}
    assert "--ready" in options
    assert options <= set(re.findall(r"--[a-z-]+", ask("--help")))


def test_the_image_is_of_this_version():
    assert "pgweir " + container()["image"].partition(":")[2] == ask("--version").splitlines()[0]


@pytest.mark.parametrize("where", INIS)
def test_the_configuration_is_good(make_pgweir, account, where):
    text = INIS[where]()
    settings = settings_of(text)
    assert set(settings) <= set(re.findall(r"^(\w+)$", ask("--dump-settings"), re.MULTILINE))
    weir = make_pgweir()
    account.write(weir.ini, text.replace(settings["auth_file"], weir.userlist))
    done = weir.run("--check", weir.ini)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("where", INIS)
def test_probes_ask_at_the_socket(where):
    settings = settings_of(INIS[where]())
    socket = f"{settings['unix_socket_dir']}/.s.PGSQL.{settings['listen_port']}"
    if where == "compose":
        service = yaml.safe_load(read("container/compose.yaml"))["services"]["pgweir"]
        assert service["healthcheck"]["test"] == ["CMD", "pgweir", "--ready", socket]
        assert f'["pgweir", "--ready", "{socket}"]' in read("container/Containerfile")
    else:
        assert container()["readinessProbe"]["exec"]["command"] == ["pgweir", "--ready", socket]


def test_the_deployment_fits_together():
    things = objects()
    assert set(things) == {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget"}
    spec = things["Deployment"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    for selector in (spec["selector"]["matchLabels"], things["Service"]["spec"]["selector"],
                     things["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert things["Service"]["spec"]["ports"][0]["targetPort"] in ports
    mounts = {mount["name"] for mount in container()["volumeMounts"]}
    assert mounts == {volume["name"] for volume in spec["template"]["spec"]["volumes"]}
    settings = settings_of(INIS["kubernetes"]())
    ending = [seconds_of(settings[name]) for name in ("shutdown_accept", "shutdown_drain")]
    assert ending[0] > 0 and "lifecycle" not in container()
    assert sum(ending) < spec["template"]["spec"]["terminationGracePeriodSeconds"]


def seconds_of(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


def test_compose_waits_for_the_drain():
    service = yaml.safe_load(read("container/compose.yaml"))["services"]["pgweir"]
    assert seconds_of(settings_of(INIS["compose"]())["shutdown_drain"]) < \
        seconds_of(service["stop_grace_period"])
    assert "STOPSIGNAL SIGTERM" in read("container/Containerfile")
