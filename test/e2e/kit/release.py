# SPDX-License-Identifier: ISC
"""An earlier release, built from this checkout's own history into out/, once."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile

TOP = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BUILD_LIMIT = 300  # seconds; a quiet machine with two processors needs some ten

class Absent(Exception):
    """The history of this checkout is cut off, and the release is not in what is left."""


class Lacking(Exception):
    """The whole history is here, and no commit of it is the release."""


def git(*args):
    # The checkout may belong to somebody else than root, who runs the tests in a container.
    return ["git", "-C", TOP, "-c", "safe.directory=*", *args]


def ask_git(*args):
    return subprocess.run(git(*args), check=True, capture_output=True, text=True).stdout.strip()


def find_commit(version):
    """The first commit whose changelog gives the version a date: neither commits nor tags need have
    the same names in every clone.
    """
    try:
        found = ask_git("log", "--reverse", "--format=%H",
                        f"-G^## .{re.escape(version)}. - [0-9]", "--", "CHANGELOG.md")
        is_shallow = ask_git("rev-parse", "--is-shallow-repository") == "true"
    except FileNotFoundError:
        raise Absent("there is no git here") from None
    except subprocess.CalledProcessError:
        raise Absent("this is no git checkout") from None
    if is_shallow:  # its oldest commit seems to be the one that has written everything
        raise Absent("this clone is shallow: it may lack the commits of releases")
    if not found:
        raise Lacking(f"no commit of the history gives {version} a date in CHANGELOG.md")
    return found.split()[0]


def unpack(commit, folder):
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
    """The path of its program. Raises Absent or Lacking."""
    commit = find_commit(version)
    out = os.path.join(TOP, "out")
    path = os.path.join(out, f"pgweir-{version}-{commit[:12]}")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, f"pgweir-{version}.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may need it at the same time
        if not os.path.exists(path):
            with tempfile.TemporaryDirectory(dir=out, prefix=f"release-{version}-") as folder:
                unpack(commit, folder)
                build(folder)
                fresh = shutil.copy(os.path.join(folder, "pgweir"), f"{path}.new")
                os.replace(fresh, path)
    return path
