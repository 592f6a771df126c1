# SPDX-License-Identifier: ISC
"""The programs of others that run pgweir, built from their Go modules or of a later Debian's packages.

All that is downloaded or built stays in out/operators, or in the folder that PGWEIR_OPERATORS names.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from lib import private_apt

HERE = pathlib.Path(__file__).resolve().parent
OUT = pathlib.Path(os.environ.get("PGWEIR_OPERATORS") or HERE.parent.parent / "out" / "operators")
LIMIT = 3600  # seconds, for a slow machine: an API server is 1300 packages
ENVIRONMENT = dict(os.environ, GOPATH=f"{OUT}/go", GOCACHE=f"{OUT}/go-build", GOWORK="off",
                   GOFLAGS="-modcacherw -buildvcs=false")


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    module: str
    version: str
    folder: str
    options: tuple = ()
    staged: str = ""  # the version of those modules that its own tree replaces

    @property
    def path(self):
        return OUT / f"{self.name}-{self.version}" / self.name

    @property
    def place(self):
        return OUT / "modules" / self.name


KUBERNETES = "k8s.io/kubernetes"
PROGRAMS = {program.name: program for program in (
    Program("kube-apiserver", KUBERNETES, "v1.31.4", "cmd/kube-apiserver",
            ("-ldflags", "-X k8s.io/component-base/version.gitVersion=v1.31.4"), "v0.31.4"),
    Program("manager", "github.com/cloudnative-pg/cloudnative-pg", "v1.28.0", "cmd/manager"),
    Program("helm", "helm.sh/helm/v3", "v3.16.4", "cmd/helm"),
    Program("telegraf", "github.com/influxdata/telegraf", "v1.37.2", "cmd/telegraf",
            ("-tags", "custom,inputs.pgbouncer,outputs.file")),
)}


def go(program, *args):
    done = subprocess.run(["go", *args], cwd=program.place, env=ENVIRONMENT, capture_output=True,
                          text=True, timeout=LIMIT, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "go: downloading" not in line]
        pytest.skip(f"{program.name} cannot be built: {' '.join(said)[-300:]}")
    return done.stdout.strip()


def folder_of(name):
    """The files of the program's module, which are downloaded if they are not there."""
    program = PROGRAMS[name]
    program.place.mkdir(parents=True, exist_ok=True)
    said = go(program, "mod", "download", "-json", f"{program.module}@{program.version}")
    return pathlib.Path(json.loads(said)["Dir"])


def write_module(program):
    text = f"module {program.name}\n\ngo 1.24\n\nrequire {program.module} {program.version}\n"
    theirs = folder_of(program.name) / "go.mod"
    if program.staged:
        for module in re.findall(r"^\t(\S+) v0\.0\.0$", theirs.read_text("utf-8"), re.MULTILINE):
            text += f"replace {module} => {module} {program.staged}\n"
    (program.place / "go.mod").write_text(text, encoding="ascii")


def need(name):
    """The program's path. Where it cannot be had the test is skipped."""
    program = PROGRAMS[name]
    if not program.path.exists():
        if not shutil.which("go"):
            pytest.skip("there is no go")
        write_module(program)
        go(program, "build", "-mod=mod", *program.options, "-o", program.path,
           f"{program.module}/{program.folder}")
    return str(program.path)


DEBIAN = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian"


def need_package(name, suite):
    """The folder into which that suite's package is unpacked. It is not installed."""
    folder = OUT / f"{name}-{suite}"
    if not folder.exists():
        if not shutil.which("apt-get"):
            pytest.skip("there is no apt")
        place = OUT / "apt" / suite
        options = private_apt.options(place, f"{DEBIAN} {suite} main")
        for command in (("update",), ("download", name)):
            done = subprocess.run(["apt-get", "-q", *options, *command], capture_output=True, text=True,
                                  timeout=LIMIT, cwd=place, check=False)
            if done.returncode:
                pytest.skip(f"{name} of {suite} cannot be had: {done.stderr[-300:]}")
        (file,) = place.glob(f"{name}_*.deb")
        subprocess.run(["dpkg-deb", "-x", file, f"{folder}.new"], timeout=120, check=True)
        os.rename(f"{folder}.new", folder)
    return folder
