# SPDX-License-Identifier: ISC
"""A copy of the tree, in which mutants are built: the tree itself is only read."""

import os
import pathlib
import re
import shutil
import subprocess

from . import points


class BuildError(Exception):
    """The copy does not build; the message ends with what the compiler said."""


class Copy:
    def __init__(self, top, folder):
        self.top = pathlib.Path(top)
        self.folder = pathlib.Path(folder)
        self.out = self.folder / "out"

    def fill(self):
        """Makes the copy like the tree. What has not changed is left alone, and so is not built."""
        names = self._names()
        for name in names:
            self._take(name)
        for path in [path for folder in ("src", "include", "test")
                     for path in self.folder.glob(f"{folder}/**/*.[ch]")]:
            if str(path.relative_to(self.folder)) not in names:
                path.unlink()

    def _names(self):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"],
                                cwd=self.top, capture_output=True, text=True, check=True)
        return {name for name in listed.stdout.split("\0")
                if name and (self.top / name).is_file()}

    def _take(self, name):
        source, target = self.top / name, self.folder / name
        if target.exists() and target.read_bytes() == source.read_bytes():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def build(self, with_sanitizers):
        """The whole build, as test/run has it."""
        script = 'top=$1; shift; . "$top/test/lib/common.sh"; build_in "$top/out" "$@"'
        options = ["--with-pam", "--with-ldap"] + ["--enable-sanitizers"] * with_sanitizers
        self._run(["bash", "-c", script, "build", str(self.folder), *options])

    def make(self, *targets):
        # Conditions that are always true are what a compiler warns of.
        self._run(["make", "-C", str(self.out), "-k", f"-j{os.cpu_count()}", "CFLAGS_WARNINGS=-w",
                   *targets])

    @staticmethod
    def _run(command):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=1800)
        if done.returncode != 0:
            raise BuildError((done.stdout + done.stderr)[-20000:])

    def mutate(self, names, kinds):
        """Writes all mutants of these sources into the copy, and compiles them. Returns them."""
        found = {}
        for name in names:
            first = 1 + sum(len(one) for one in found.values())
            found[name] = points.find((self.top / name).read_text(), name, kinds, first)
        while True:
            for name, ones in found.items():
                (self.folder / name).write_text(points.rewrite((self.top / name).read_text(), ones))
            try:
                self.make("pgweir")
                return [mutant for ones in found.values() for mutant, _ in ones]
            except BuildError as error:
                if not self._drop(found, str(error)):
                    raise

    @staticmethod
    def _drop(found, said):
        """Forgets the mutants on the lines that the compiler has complained about."""
        dropped = 0
        for name, ones in found.items():
            lines = {int(line) for line in
                     re.findall(rf"{re.escape(name)}:(\d+):\d+: error", said)}
            kept = [one for one in ones if one[0].line not in lines]
            dropped += len(ones) - len(kept)
            ones[:] = kept
        return dropped
