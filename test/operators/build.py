# SPDX-License-Identifier: ISC
"""The programs of others that run pgweir, built from their Go modules.

All that is downloaded or built stays in out/operators.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parent.parent / "out" / "operators"
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
    Program("kube-apiserver", KUBERNETES, "v1.31.4", "cmd/kube-apiserver", staged="v0.31.4"),
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
    """The files of the program's module."""
    program = PROGRAMS[name]
    return pathlib.Path(go(program, "list", "-mod=mod", "-m", "-f", "{{.Dir}}", program.module))


def write_module(program):
    text = f"module {program.name}\n\ngo 1.24\n\nrequire {program.module} {program.version}\n"
    file = program.place / "go.mod"
    file.write_text(text, encoding="ascii")
    if program.staged:
        theirs = (folder_of(program.name) / "go.mod").read_text(encoding="utf-8")
        for module in re.findall(r"^\t(\S+) v0\.0\.0$", theirs, re.MULTILINE):
            text += f"replace {module} => {module} {program.staged}\n"
        file.write_text(text, encoding="ascii")


def need(name):
    """The program's path. Where it cannot be had the test is skipped."""
    program = PROGRAMS[name]
    if not program.path.exists():
        if not shutil.which("go"):
            pytest.skip("there is no go")
        program.place.mkdir(parents=True, exist_ok=True)
        write_module(program)
        go(program, "mod", "download", program.module)
        go(program, "build", "-mod=mod", *program.options, "-o", program.path,
           f"{program.module}/{program.folder}")
    return str(program.path)
