# SPDX-License-Identifier: ISC
"""The image as a directory, made by debootstrap, and containers of it: any user, a root that cannot
be written, no capability, no io_uring.

The directory is kept as out/image/root.tar until its recipe changes.
"""

import contextlib
import ctypes
import hashlib
import os
import re
import shutil
import struct
import subprocess

import pytest

from .daemon import find_binary
from .wait import wait_exit, wait_until

TOP = os.path.normpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
RECIPE = [f"{TOP}/etc/container/{name}" for name in ("rootfs", "recipe")]
KEPT = f"{TOP}/out/image/root.tar"
LIMIT = 1200  # seconds, for a slow mirror

# As Docker's profile does: these three system calls fail with EPERM.
IO_URING, LOAD_NUMBER, JUMP_IF_EQUAL, RETURN = (425, 426, 427), 0x20, 0x15, 0x06
ALLOW, FAIL_WITH_EPERM = 0x7fff0000, 0x00050001
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38


def forbid_io_uring():
    code = [(LOAD_NUMBER, 0, 0, 0)]
    code += [(JUMP_IF_EQUAL, len(IO_URING) - at, 0, number) for at, number in enumerate(IO_URING)]
    code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, FAIL_WITH_EPERM)]
    packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(packed)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or \
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def unpack(folder):
    """The directory, as the recipe makes it today."""
    stamp = hashlib.sha256(b"".join(open(path, "rb").read() for path in RECIPE)).hexdigest()
    tar = KEPT.replace(".tar", f"-{stamp[:12]}.tar")
    if not os.path.exists(tar):
        made = subprocess.run([RECIPE[0], find_binary(), folder], capture_output=True, text=True,
                              timeout=LIMIT, check=False)
        if made.returncode:
            pytest.skip(f"debootstrap or apt-get failed: {made.stderr.strip()[-200:]}")
        os.makedirs(os.path.dirname(tar), exist_ok=True)
        subprocess.run(["tar", "-C", folder, "-cf", f"{tar}.new", "."], check=True)
        os.replace(f"{tar}.new", tar)
    else:
        subprocess.run(["tar", "-C", folder, "-xf", tar], check=True)
    shutil.copy(f"{TOP}/etc/container/entrypoint", f"{folder}/entrypoint")
    shutil.copy(find_binary(), f"{folder}/usr/bin/pgweir")
    add_sanitizers(folder)


def add_sanitizers(folder):
    """A build with sanitizers needs more libraries than the image has."""
    listed = subprocess.run(["ldd", find_binary()], capture_output=True, text=True, check=True).stdout
    for name, path in re.findall(r"(\S+) => (/\S+)", listed):
        if not os.path.exists(f"{folder}{path}"):
            assert re.match(r"lib(asan|ubsan|tsan|stdc|gcc)", name), f"the image lacks {name}"
            os.makedirs(os.path.dirname(f"{folder}{path}"), exist_ok=True)
            shutil.copy(os.path.realpath(path), f"{folder}{path}")


class Container:
    """A process in the image, in namespaces of its own for mounts and processes."""

    def __init__(self, root, user, command, tmp=True, mounts=None, network=(), **variables):
        """`mounts`: paths in the image and what is there; `network`: how to enter another one."""
        steps = [f"mount --bind {root} {root}", f"mount -o remount,bind,ro {root}",
                 f"mount -t proc proc {root}/proc"]
        steps += [f"mount -t tmpfs -o mode=1777 tmpfs {root}/tmp"] if tmp else []
        steps += [f"mount --bind {source} {root}{path}" for path, source in (mounts or {}).items()]
        uid, gid = user
        within = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "ASAN_OPTIONS=detect_leaks=0",
                  *(f"{name}={value}" for name, value in variables.items()), *command]
        script = " && ".join([*steps, f'exec chroot {root} setpriv --reuid {uid} --regid {gid} '
                              '--clear-groups --bounding-set=-all --inh-caps=-all -- "$@"'])
        self.process = subprocess.Popen(
            [*network, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "-",
             *within],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=forbid_io_uring)
        self.log = ""

    def wait_log(self, pattern):
        def is_there():
            if re.search(pattern, self.log):
                return True
            line = self.process.stdout.readline()
            self.log += line
            assert line, f"it ended:\n{self.log}"
            return False
        wait_until(is_there, what=pattern)

    def pid(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return int(file.read().split()[0])

    def run(self, *command):
        """Runs a command beside it, as the same user, as `kubectl exec` does."""
        with open(f"/proc/{self.pid()}/status", encoding="ascii") as file:
            facts = dict(line.split(":\t", 1) for line in file)
        return subprocess.run(
            ["nsenter", "-t", str(self.pid()), "-m", "-p", "-r", "-S", facts["Uid"].split()[0], "-G",
             facts["Gid"].split()[0], *command], capture_output=True, text=True, timeout=30, check=False)

    def finish(self):
        self.log += self.process.stdout.read()
        return wait_exit(self.process, 30)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("needs root and debootstrap")
    folder = str(tmp_path_factory.mktemp("image") / "root")
    os.mkdir(folder)
    unpack(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def container(root):
    with contextlib.ExitStack() as stack:
        def start(user, *command, **more):
            made = Container(root, user, command, **more)
            stack.callback(made.close)
            return made
        yield start
