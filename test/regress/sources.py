# SPDX-License-Identifier: ISC
"""The regression scripts of the installed PostgreSQL, from its Debian source package.

apt checks what it downloads. It gets a list of sources of our own, so the system's lists stay as
they are. The C functions of the scripts are compiled with the headers of postgresql-server-dev,
which are unpacked and not installed: that package depends on a whole clang.
"""

import pathlib
import re
import shutil
import subprocess

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SITES = (("http://deb.debian.org/debian", "{name}"),
         ("http://deb.debian.org/debian", "{name}-updates"),
         ("http://deb.debian.org/debian-security", "{name}-security"))
LIMIT_S = 600
REGRESS = "src/test/regress"
ISOLATION = "src/test/isolation"
LIBRARIES = {"regress": REGRESS + "/regress.c", "refint": "contrib/spi/refint.c",
             "autoinc": "contrib/spi/autoinc.c"}


class SourceError(Exception):
    """The sources could not be had, or not be compiled."""


def call(*command, **more):
    done = subprocess.run([str(word) for word in command], text=True, timeout=LIMIT_S,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode != 0:
        raise SourceError(f"{' '.join(map(str, command))}:\n{done.stdout[-2000:]}")
    return done.stdout


def installed(bin_folder):
    """The Debian package of these programs, as (name, version)."""
    number = re.match(r"/usr/lib/postgresql/(\d+)/bin$", str(bin_folder))
    if not number:
        raise SourceError(f"{bin_folder} is not of a Debian package: its scripts are not known")
    name = f"postgresql-{number[1]}"
    return name, call("dpkg-query", "-W", "-f", "${Version}", name)


class Apt:
    """apt-get with sources, lists and downloads below one folder."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        release = dict(re.findall(r'^(\w+)="?(.*?)"?$',
                                  pathlib.Path("/etc/os-release").read_text(), re.MULTILINE))
        self.code = release.get("VERSION_CODENAME", "")
        (folder / "sources.list").write_text("".join(
            f"{kind} [signed-by={KEYRING}] {site} {suite.format(name=self.code)} main\n"
            for kind in ("deb", "deb-src") for site, suite in SITES))

    def __call__(self, *words):
        return call("apt-get", "-q", "-o", f"Dir::Etc::sourcelist={self.folder}/sources.list",
                    "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={self.folder}/lists",
                    "-o", "APT::Sandbox::User=", *words, cwd=self.folder)

    def fetch(self, words, package, version):
        """This version or, if the archive has replaced it, the newest of this major version; or, if
        an archive of updates lacks its files, that of the release.
        """
        problem = None
        for wanted in (f"{package}={version}", package, f"{package}/{self.code}"):
            try:
                return self(*words, wanted)
            except SourceError as error:
                problem = error
        raise problem


def fetch(folder, package, version):
    """Downloads and unpacks the scripts and the headers below the folder."""
    apt = Apt(folder)
    apt("update")
    number = package.rpartition("-")[2]
    apt.fetch(("source", "--download-only", "--tar-only"), package, version)
    apt.fetch(("download",), f"postgresql-server-dev-{number}", version)
    (archive,) = folder.glob(f"{package}_*.orig.tar.*")
    (headers,) = folder.glob("postgresql-server-dev-*.deb")
    call("tar", "-xf", archive, "-C", folder, "--strip-components=1", "--wildcards",
         f"*/{REGRESS}", f"*/{ISOLATION}", "*/contrib/spi")
    call("dpkg", "-x", headers, folder / "headers")
    shutil.rmtree(folder / "lists")


def compile_libraries(folder, number):
    (folder / "lib").mkdir(exist_ok=True)
    include = folder / "headers/usr/include/postgresql"
    for name, source in LIBRARIES.items():
        call("cc", "-O1", "-fPIC", "-shared", "-w", "-I", include / number / "server",
             "-I", include / "internal", "-I", "/usr/include/postgresql", "-o",
             folder / "lib" / f"{name}.so", folder / source)


def prepare(cache, bin_folder):
    """The folder with the scripts and lib/, made when it is not there."""
    package, version = installed(bin_folder)
    folder = cache / version
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetch(folder, package, version)
        compile_libraries(folder, package.rpartition("-")[2])
        (folder / "ready").touch()
    return folder


def schedule(folder):
    """The names of the scripts in their order."""
    lines = (folder / REGRESS / "parallel_schedule").read_text().splitlines()
    return [name for line in lines if line.startswith("test:") for name in line.split()[1:]]
