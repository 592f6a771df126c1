# SPDX-License-Identifier: ISC
"""An API server of Kubernetes with its etcd, and pods that are containers of the image."""

import base64
import contextlib
import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

from e2e.kit.account import free_port
from e2e.kit.wait import wait_exit, wait_until

TOKEN = "a-token-of-these-tests"
SERVICE_ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"
DOMAIN = "default.svc.cluster.local"
LIMIT = 120  # seconds, for the API server on a busy machine


def encoded(data):
    return {name: base64.b64encode(value).decode() for name, value in data.items()}


class Kubernetes:
    def __init__(self, folder, apiserver, ca, address):
        self.address, self.port = address, free_port()
        self._log = open(f"{folder}/log", "ab")
        self._programs = contextlib.ExitStack()
        self._trust = ssl.create_default_context(cafile=ca.cert)
        own = ca.issue("apiserver", "apiserver", names=(address,))
        signer = ca.issue("signer", "signer", key="rsa")
        with open(f"{folder}/tokens", "w", encoding="ascii") as file:
            file.write(f'{TOKEN},test,test,system:masters\n')
        store = f"http://127.0.0.1:{free_port()}"
        between = f"http://127.0.0.1:{free_port()}"
        self._run("etcd", "--data-dir", f"{folder}/etcd", "--listen-client-urls", store,
                  "--advertise-client-urls", store, "--listen-peer-urls", between,
                  "--initial-advertise-peer-urls", between, "--initial-cluster", f"default={between}")
        self._run(apiserver, f"--etcd-servers={store}", f"--bind-address={address}",
                  f"--secure-port={self.port}", f"--tls-cert-file={own.cert}",
                  f"--tls-private-key-file={own.key}", f"--token-auth-file={folder}/tokens",
                  "--authorization-mode=AlwaysAllow", "--service-cluster-ip-range=10.96.0.0/24",
                  "--service-account-issuer=https://tests", f"--service-account-key-file={signer.key}",
                  f"--service-account-signing-key-file={signer.key}", f"--cert-dir={folder}",
                  "--disable-admission-plugins=ServiceAccount")
        try:
            wait_until(self._is_ready, limit=LIMIT, what=f"the API server (see {folder}/log)")
        except BaseException:
            self.close()
            raise

    def _run(self, *args):
        process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        self._programs.callback(wait_exit, process, 60)
        self._programs.callback(process.kill)

    def _is_ready(self):
        try:
            return bool(self.do("GET", "/api/v1/namespaces/default"))
        except (OSError, urllib.error.HTTPError):
            return False

    def do(self, method, path, content=None, kind="application/json"):
        body = content if isinstance(content, (bytes, type(None))) else json.dumps(content).encode()
        request = urllib.request.Request(
            f"https://{self.address}:{self.port}{path}", body, method=method,
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": kind})
        with urllib.request.urlopen(request, context=self._trust, timeout=30) as answer:
            return json.load(answer)

    def define(self, path):
        """A CustomResourceDefinition, and waits until it is served."""
        with open(path, "rb") as file:
            made = self.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                           file.read(), "application/yaml")
        name = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{made['metadata']['name']}"
        wait_until(lambda: "Established" in self._conditions(name), what="the definition to be established")

    def _conditions(self, path):
        found = self.do("GET", path).get("status", {}).get("conditions") or ()
        return [condition["type"] for condition in found if condition["status"] == "True"]

    def secret(self, name, kind, method="POST", **data):
        path = "/api/v1/namespaces/default/secrets" + (f"/{name}" if method == "PUT" else "")
        data = {key.replace("_", "."): value for key, value in data.items()}
        return self.do(method, path, {"apiVersion": "v1", "kind": "Secret", "type": kind,
                                      "metadata": {"name": name}, "data": encoded(data)})

    def patch(self, path, content):
        return self.do("PATCH", path, content, "application/merge-patch+json")

    def close(self):
        self._programs.close()
        self._log.close()


class Pods:
    """What a pod finds in its file system, and its network."""

    def __init__(self, kubernetes, folder, ca, name_server):
        self.kubernetes, self.folder = kubernetes, folder
        os.mkdir(f"{folder}/account")
        shutil.copy(ca.cert, f"{folder}/account/ca.crt")
        self._write("account/token", TOKEN)
        self._write("account/namespace", "default")
        self._write("resolv.conf", f"search {DOMAIN} svc.cluster.local cluster.local\n"
                    f"nameserver {name_server}\noptions ndots:5\n")

    def _write(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="ascii") as file:
            file.write(text)

    def mounts(self):
        return {SERVICE_ACCOUNT: f"{self.folder}/account", "/etc/resolv.conf": f"{self.folder}/resolv.conf"}

    def variables(self):
        return {"KUBERNETES_SERVICE_HOST": self.kubernetes.address,
                "KUBERNETES_SERVICE_PORT": str(self.kubernetes.port)}


def need_etcd():
    if not shutil.which("etcd"):
        pytest.skip("there is no etcd")
