# SPDX-License-Identifier: ISC
"""Where the drivers' own tests come from, how they are run, and what they have said.

Everything is downloaded from the registries and stays in out/suites. Only suites whose package has
its tests are here: those of psycopg 3, node-postgres and postgres.js are not in their packages.
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import xml.etree.ElementTree
import zipfile

CACHE = pathlib.Path(__file__).resolve().parent.parent.parent / "out" / "suites"
PYTHON = "/usr/bin/python3"
FETCH_LIMIT_S = 900
RUN_LIMIT_S = 1200
TEST_LIMIT_S = 60
PASSED, FAILED = "passed", "failed"


class SuiteError(Exception):
    """A suite could not be had, or did not run."""


def call(*command, limit=FETCH_LIMIT_S, **more):
    done = subprocess.run([str(word) for word in command], text=True, timeout=limit,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        raise SuiteError(f"{' '.join(map(str, command))}:\n{done.stdout[-2000:]}")
    return done.stdout


@dataclasses.dataclass(frozen=True)
class Suite:
    name: str
    version: str

    @property
    def folder(self):
        return CACHE / f"{self.name}-{self.version}"

    def prepare(self):
        """Downloads and builds what is not there."""
        if (self.folder / "ready").exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.fetch()
        (self.folder / "ready").touch()

    def environment(self, port):
        """Superuser postgres of database app: what tests make there is in no other database."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {**own, "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "postgres",
                "PGPASSWORD": "pw", "PGDATABASE": "app", "PGSSLMODE": "disable", "LC_ALL": "C.UTF-8"}

    def set_up(self, cluster):
        """What its documentation wants in the database."""
        cluster.query("CREATE EXTENSION IF NOT EXISTS hstore")

    def run(self, port, place, word=None):
        """Returns {test: (outcome, the last words of a failure)}; tests that were skipped are not in
        it. word: only tests whose names contain it.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Pytest(Suite):
    requirements: tuple = ()
    tests: str = "tests"
    options: tuple = ()
    more: tuple = ()  # of the environment

    def fetch(self):
        call(PYTHON, "-m", "venv", self.folder / "venv")
        pip = (self.folder / "venv/bin/pip", "--disable-pip-version-check", "-q")
        call(*pip, "install", "pytest<9", "pytest-timeout", *self.requirements)
        call(*pip, "download", "--no-deps", "--no-binary", self.name, "-d", self.folder,
             f"{self.name}=={self.version}")
        (archive,) = self.folder.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                # Only the tests: the driver is the one that was installed.
                _, _, path = member.name.partition("/")
                if path.split("/")[0] == self.tests and (member.isfile() or member.isdir()):
                    member.name = path
                    tar.extract(member, self.folder)

    def run(self, port, place, word=None):
        report = pathlib.Path(place) / "report.xml"
        report.unlink(missing_ok=True)
        with open(pathlib.Path(place) / "output", "wb") as output:
            subprocess.run(
                [self.folder / "venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                 "--continue-on-collection-errors",
                 f"--timeout={TEST_LIMIT_S}", f"--junitxml={report}", *self.options,
                 *(("-k", word) if word else ()), self.tests],
                cwd=self.folder, env={**self.environment(port), **dict(self.more)},
                timeout=RUN_LIMIT_S, stdout=output, stderr=output, check=False)
        if not report.exists():
            raise SuiteError((pathlib.Path(place) / "output").read_text(errors="replace")[-2000:])
        return dict(self._outcomes(report))

    @staticmethod
    def _outcomes(report):
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            bad = [one for one in case if one.tag in ("failure", "error")]
            if not bad and any(one.tag == "skipped" for one in case):
                continue
            name = f"{case.get('classname')}.{case.get('name')}"
            yield name, (FAILED if bad else PASSED, bad[0].get("message", "") if bad else "")


@dataclasses.dataclass(frozen=True)
class Go(Suite):
    module: str = ""
    more: tuple = ()

    def _environment(self, port=0):
        text = "host=127.0.0.1 port={port} user=postgres password=pw dbname=app sslmode=disable"
        return {**self.environment(port), "GOPATH": str(CACHE / "go"), "GOFLAGS": "-modcacherw -mod=mod",
                "GOCACHE": str(CACHE / "go-build"),
                **{name: (value or text).format(port=port) for name, value in self.more}}

    def fetch(self):
        told = call("go", "mod", "download", "-json", f"{self.module}@{self.version}",
                    cwd=self.folder, env=self._environment())
        with zipfile.ZipFile(json.loads(told)["Zip"]) as archive:
            archive.extractall(self.folder / "zip")
        (self.folder / "zip" / f"{self.module}@{self.version}").rename(self.folder / "source")
        call("go", "mod", "download", cwd=self.folder / "source", env=self._environment())

    def set_up(self, cluster):
        script = self.folder / "source/testsetup/postgresql_setup.sql"
        if script.exists():
            call(f"{cluster.bin}/psql", "-X", "-q", "-f", script, env=self.environment(cluster.port))
        else:
            super().set_up(cluster)

    def run(self, port, place, word=None):
        with open(pathlib.Path(place) / "output", "w+", encoding="utf-8", errors="replace") as output:
            subprocess.run(
                ["go", "test", "-p", "1", "-count=1", "-json", f"-timeout={RUN_LIMIT_S}s",
                 *((f"-run={word}",) if word else ()), "./..."],
                cwd=self.folder / "source", env=self._environment(port), timeout=RUN_LIMIT_S + 60,
                stdout=output, stderr=subprocess.STDOUT, check=False)
            output.seek(0)
            outcomes = dict(self._outcomes(output))
        if not outcomes:
            raise SuiteError((pathlib.Path(place) / "output").read_text(errors="replace")[-2000:])
        return outcomes

    def _outcomes(self, lines):
        """Of tests and their parts; not of whole packages."""
        words = {}
        for line in lines:
            if not line.startswith("{"):
                continue
            event = json.loads(line)
            name = f"{event.get('Package', '').removeprefix(self.module)}.{event.get('Test')}"
            name = re.sub(r"\d{6,}", "N", name)  # of a temporary folder
            if "Test" not in event:
                continue
            if event["Action"] == "output":
                words[name] = (words.get(name, "") + event["Output"])[-2000:]
            elif event["Action"] in ("pass", "fail"):
                said = re.sub(r"\s*(===|---) .*\n", "\n", words.get(name, "")).strip()
                yield name, ((PASSED, "") if event["Action"] == "pass" else (FAILED, said))


SUITES = (
    Pytest("asyncpg", "0.32.0", requirements=("asyncpg==0.32.0", "distro"),
           options=("--ignore=tests/test__sourcecode.py", "--ignore=tests/test__environment.py",
                    "-k", "not Ssl and not SSL and not ssl and not subinterpreter")),
    Pytest("pg8000", "1.31.6", requirements=("pg8000==1.31.6", "pytz", "pytest-mock",
                                             "pytest-benchmark"), tests="test",
           options=("--ignore-glob=*/auth", "--ignore-glob=*benchmarks*",
                    "--ignore=test/test_readme.py",
                    # doc/pooling.md: pgweir does not keep the text of an unnamed statement above 64
                    # KiB. After that error pg8000 goes on in the middle of a message, and hangs.
                    "--deselect=test/native/test_query.py::test_max_parameters")),
    Pytest("psycopg2", "2.9.13", requirements=("psycopg2-binary==2.9.13",),
           more=(("PSYCOPG2_TESTDB", "app"),)),
    Go("pgx", "v5.12.0", module="github.com/jackc/pgx/v5", more=(("PGX_TEST_DATABASE", ""),)),
    Go("lib-pq", "v1.12.3", module="github.com/lib/pq"),
)
