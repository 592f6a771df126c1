# SPDX-License-Identifier: ISC
"""An earlier release, built from this checkout's own history into out/, once."""

import os
import shutil
import subprocess
import tempfile

TOP = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BUILD_LIMIT = 300  # seconds; a quiet machine with two processors needs some ten

# By commit, not by tag: a clone need not have the tags.
COMMITS = {"0.1.0": "d23fd64cc4779f2350f64de5d1dac2249f431757"}


class Absent(Exception):
    """The release cannot be built here."""


def git(*args):
    # The checkout may belong to somebody else than root, who runs the tests in a container.
    return ["git", "-C", TOP, "-c", "safe.directory=*", *args]


def unpack(commit, folder):
    try:
        subprocess.run(git("cat-file", "-e", f"{commit}^{{commit}}"), check=True,
                       capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        raise Absent(f"commit {commit} is not in the history of this checkout") from None
    archive = subprocess.run(git("archive", commit), check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)


def run(command, folder):
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=BUILD_LIMIT, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-4000:]}"


def build(folder):
    """As cheap as it gets: not optimised, without sanitizers and debug symbols."""
    run(["./autogen.sh"], folder)
    run(["./configure", "-q", "--disable-dependency-tracking", "CFLAGS=-O0 -g0"], folder)
    run(["make", f"-j{os.cpu_count()}", "pgweir"], folder)


def release_binary(version):
    """The path of its program; Absent: this checkout does not have its sources."""
    out = os.path.join(TOP, "out")
    path = os.path.join(out, f"pgweir-{version}-{COMMITS[version][:12]}")
    if os.path.exists(path):
        return path
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=f"release-{version}-") as folder:
        unpack(COMMITS[version], folder)
        build(folder)
        # Under its name at once, as another run may look for it at the same time.
        fresh = shutil.copy(os.path.join(folder, "pgweir"), f"{path}.{os.getpid()}")
        os.replace(fresh, path)
    return path
