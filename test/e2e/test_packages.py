# SPDX-License-Identifier: ISC
"""What is made of a release beside its packages: repositories for apt and dnf, and the list of what
it consists of. The packages themselves are for `test/run package`.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from .kit.daemon import find_binary
from .test_containers import ETC, ask

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))

import private_apt  # noqa: E402  (the path first)

VERSION = ask("--version").splitlines()[0].partition(" ")[2]


def run(*args, timeout=60, **more):
    return subprocess.run(args, capture_output=True, text=True, timeout=timeout, check=False, **more)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_the_spec_is_of_this_version():
    assert re.search(r"^Version: +(\S+)$", read(f"{ETC}/rpm/pgweir.spec").decode(), re.M)[1] == VERSION


def test_sbom():
    done = run(f"{ETC}/sbom", find_binary(), VERSION, env=dict(os.environ, SOURCE_DATE_EPOCH="1000000000"))
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["creationInfo"]["created"] == "2001-09-09T01:46:40Z"
    packages = {package["SPDXID"]: package for package in made["packages"]}
    assert len(packages) == len(made["packages"])
    (ours,) = [package for package in packages.values() if package["name"] == "pgweir"]
    assert ours["versionInfo"] == VERSION
    assert ours["checksums"] == [{"algorithm": "SHA256",
                                  "checksumValue": hashlib.sha256(read(find_binary())).hexdigest()}]
    links = {packages[link["relatedSpdxElement"]]["name"]: link["relationshipType"]
             for link in made["relationships"] if link["spdxElementId"] == ours["SPDXID"]}
    assert len(links) == len(packages) - 1
    for library in ("ssl", "event", "cares|c-ares"):
        assert any(re.search(library, name) and how == "DYNAMIC_LINK" for name, how in links.items())
    assert [name for name, how in links.items() if how == "STATIC_LINK" and "uthash" in name]


# -- repositories ---------------------------------------------------------------------------------

CONTROL = """Package: pgweir
Version: {version}
Architecture: amd64
Maintainer: nobody <nobody@example.invalid>
Description: a package for this test
"""
SPEC = """Name: pgweir
Version: 1.0
Release: 1
Summary: a package for this test
License: ISC
%description
%files
"""


@pytest.fixture(scope="module")
def vault(tmp_path_factory):
    """The environment in which gpg has a key, named by the address release@example.invalid."""
    if not shutil.which("gpg") or not shutil.which("dpkg-scanpackages"):
        pytest.skip("needs gpg and dpkg-dev")
    home = tmp_path_factory.mktemp("gpg")  # a short path: gpg's agent has a socket in it
    home.chmod(0o700)
    env = dict(os.environ, GNUPGHOME=str(home))
    made = run("gpg", "--batch", "--passphrase", "", "--quick-gen-key", "release@example.invalid", "ed25519",
               "sign", "never", env=env)
    assert made.returncode == 0, made.stderr
    yield env
    run("gpgconf", "--kill", "gpg-agent", env=env)


@pytest.fixture
def make(vault, tmp_path):
    """Makes the repositories of these packages, or adds to them."""
    def do(*files, key="release@example.invalid"):
        return run(f"{ETC}/repository", key, str(tmp_path / "site"), *map(str, files), env=vault)
    return do


def deb(tmp_path, version):
    tree = tmp_path / f"deb{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(CONTROL.format(version=version))
    file = tmp_path / f"pgweir_{version}_amd64.deb"
    done = run("dpkg-deb", "--root-owner-group", "-b", str(tree), str(file))
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture
def apt(tmp_path):
    site = tmp_path / "site"
    options = private_apt.options(
        tmp_path, f"deb [arch=amd64 signed-by={site}/pgweir.asc] file:{site}/apt stable main")
    return lambda program, *args: run(program, *args, *options, "-o", "APT::Architecture=amd64")


@pytest.mark.skipif(not shutil.which("apt-get"), reason="there is no apt")
def test_apt_takes_the_repository(make, apt, tmp_path):
    for version in ("1.0", "1.1"):
        done = make(deb(tmp_path, version))
        assert done.returncode == 0, done.stderr
    done = apt("apt-get", "update")
    assert done.returncode == 0 and "W:" not in done.stderr, done.stderr
    assert re.findall(r"^ +(1\.\d) \d+$", apt("apt-cache", "policy", "pgweir").stdout, re.M) == ["1.1", "1.0"]
    # A list that the key does not vouch for.
    lists = tmp_path / "site" / "apt" / "dists" / "stable" / "main" / "binary-amd64"
    text = read(lists / "Packages").replace(b"1.1", b"1.2")
    (lists / "Packages").write_bytes(text)
    (lists / "Packages.gz").write_bytes(gzip.compress(text))
    shutil.rmtree(tmp_path / "state" / "lists")
    (tmp_path / "state" / "lists" / "partial").mkdir(parents=True)
    assert apt("apt-get", "update").returncode != 0


@pytest.fixture
def rpm(tmp_path):
    if not shutil.which("rpmbuild") or not shutil.which("createrepo_c"):
        pytest.skip("needs rpmbuild and createrepo_c")
    spec = tmp_path / "a.spec"
    spec.write_text(SPEC)
    built = run("rpmbuild", "-bb", "--define", f"_topdir {tmp_path}/rpm", str(spec))
    assert built.returncode == 0, built.stderr
    (file,) = (tmp_path / "rpm" / "RPMS").glob("*/*.rpm")
    return file


def test_rpm_packages_are_signed(make, rpm, vault, tmp_path):
    done = make(rpm)
    assert done.returncode == 0, done.stderr
    site, store = tmp_path / "site", ("--dbpath", str(tmp_path / "keys"))
    assert run("rpmkeys", *store, "--import", str(site / "pgweir.asc")).returncode == 0
    before, after = (run("rpmkeys", *store, "-Kv", str(path)) for path in (rpm, site / "rpm" / rpm.name))
    assert "Signature" not in before.stdout
    assert after.returncode == 0 and re.search("Signature, .*: OK", after.stdout), after.stdout
    data = site / "rpm" / "repodata"
    signed = run("gpg", "--verify", str(data / "repomd.xml.asc"), str(data / "repomd.xml"), env=vault)
    assert signed.returncode == 0, signed.stderr
    assert b"primary" in read(data / "repomd.xml")


@pytest.mark.skipif(not shutil.which("dnf"), reason="there is no dnf")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can install packages")
def test_dnf_takes_the_repository(make, rpm, tmp_path):
    """Into a folder, by the lines of doc/packages.md."""
    done = make(rpm)
    assert done.returncode == 0, done.stderr
    site, lines = tmp_path / "site", read(f"{ETC}/../doc/packages.md").decode()
    (tmp_path / "repos").mkdir()
    (tmp_path / "repos" / "pgweir.repo").write_text(re.search(r"```ini\n(.*?)```", lines, re.DOTALL)[1].replace(
        "https://packages.example.com/pgweir", f"file://{site}"))

    def install(root):
        return run("dnf", "-y", f"--installroot={tmp_path}/{root}", f"--setopt=reposdir={tmp_path}/repos",
                   "--setopt=varsdir=/dev/null", f"--setopt=cachedir={tmp_path}/cache-{root}", "--releasever=1",
                   f"--setopt=logdir={tmp_path}", "install", "pgweir", timeout=90)

    done = install("good")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Importing GPG key" in done.stdout + done.stderr
    assert run("rpm", "--root", str(tmp_path / "good"), "-q", "pgweir").stdout == "pgweir-1.0-1.x86_64\n"
    # A list of packages that the key does not vouch for; then a package.
    data = site / "rpm" / "repodata"
    (data / "repomd.xml").write_bytes(read(data / "repomd.xml") + b"<!-- -->")
    done = install("list")
    assert done.returncode != 0 and "repomd.xml" in done.stdout + done.stderr, done.stdout
    shutil.copy(rpm, site / "rpm")
    done = run("createrepo_c", "--quiet", str(site / "rpm"))
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "repos" / "pgweir.repo").read_text()
    (tmp_path / "repos" / "pgweir.repo").write_text(lines.replace("repo_gpgcheck=1", "repo_gpgcheck=0"))
    done = install("package")
    assert done.returncode != 0 and "not signed" in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("name, key, says", (("a.zip", "release@example.invalid", "neither a .deb nor an .rpm"),
                                             ("x.deb", "nobody@example.invalid", "no key")))
def test_what_is_no_use(make, tmp_path, name, key, says):
    (tmp_path / name).write_bytes(b"?")
    done = make(tmp_path / name, key=key)
    assert done.returncode == 1 and says in done.stderr, done.stderr
    assert not (tmp_path / "site" / "apt" / "dists").exists()
