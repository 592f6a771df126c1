# SPDX-License-Identifier: ISC
"""Runs tests on mutants. Each test is first run on the program as it is, which shows how long it
takes, and which mutants it gets to; no other test is tried on a mutant."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from . import points

# What a test may take on a mutant: several times what it took before, since the machine may be
# busier now; and some more for what is quick.
SLOWER, MORE_S = 4, 10
# How long the whole-daemon tests wait for one event. On most mutants they wait in vain.
EVENT_LIMIT_S = 4


@dataclasses.dataclass
class Test:
    name: str
    is_unit: bool
    command: list
    seconds: float = 0
    met: bytes = b""


class Trials:
    def __init__(self, copy, folder):
        self.copy = copy
        self.folder = pathlib.Path(folder)
        self.folder.chmod(0o777)  # what the daemon runs as may be another user

    def environment(self, **more):
        binary = self.copy.out / "pgweir"
        return {**os.environ, "PGWEIR_BIN": str(binary), "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": str(self.copy.folder / "test"), **more}

    def run(self, command, limit, **environment):
        """Whether it passed; False, too, if it did not end in time."""
        process = subprocess.Popen(command, cwd=self.copy.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=self.environment(**environment), start_new_session=True)
        try:
            return process.wait(limit) == 0
        except subprocess.TimeoutExpired:
            self._end(process)
            return False

    @staticmethod
    def _end(process):
        """An interrupted pytest stops what it has started."""
        for number, patience in ((signal.SIGINT, 60), (signal.SIGKILL, 10)):
            try:
                os.killpg(process.pid, number)
                process.wait(patience)
                return
            except subprocess.TimeoutExpired:
                pass
            except ProcessLookupError:
                return

    def _met_file(self):
        descriptor, path = tempfile.mkstemp(dir=self.folder)
        os.ftruncate(descriptor, points.MUTANTS_MAX)
        os.close(descriptor)
        os.chmod(path, 0o666)
        return pathlib.Path(path)

    def measure_unit(self, path):
        """Runs a unit test's program as it is: in one process, which is quicker, if it can."""
        met = self._met_file()
        try:
            for fork in ("no", "yes"):
                test = Test(str(path.relative_to(self.copy.out)), True,
                            ["env", f"CK_FORK={fork}", str(path)])
                begin = time.monotonic()
                if self.run(test.command, 600, MUTANTS_MET=str(met)):
                    test.seconds, test.met = time.monotonic() - begin, met.read_bytes()
                    return test
        finally:
            met.unlink()
        raise RuntimeError(f"{test.name} fails without any mutant")

    def measure_e2e(self, files):
        """Runs files of whole-daemon tests as they are; returns the tests in them that pass."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            os.chmod(folder, 0o777)
            self.run(self._pytest(files), 1800, MUTANTS_FOLDER=folder)
            for record in sorted(pathlib.Path(folder).glob("*.passed")):
                name, seconds = record.read_text().splitlines()
                yield Test(name, False, [name], float(seconds),
                           record.with_suffix(".met").read_bytes())

    @staticmethod
    def _pytest(names, *more):
        return ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "mutants.record", *more,
                *(f"test/e2e/{name}" for name in names)]

    def kills(self, mutant, tests):
        """The name of a test that fails on this mutant, or None."""
        chosen = {"MUTANT": str(mutant.number)}
        for test in tests:
            if test.is_unit and not self.run(test.command, SLOWER * test.seconds + MORE_S, **chosen):
                return test.name
        names = [test.name for test in tests if not test.is_unit]
        seconds = sum(test.seconds for test in tests if not test.is_unit)
        if names and not self.run(self._pytest(names, "-x"), SLOWER * seconds + 3 * MORE_S,
                                  PGWEIR_TEST_LIMIT=str(EVENT_LIMIT_S), **chosen):
            return "test/e2e"
        return None
