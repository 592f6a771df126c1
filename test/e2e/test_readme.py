# SPDX-License-Identifier: ISC
"""The README: its configuration is good, and its figures are those that were measured."""

import json
import pathlib
import re
import shlex
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(TOP / "test" / "bench"))

import document  # noqa: E402  (the path comes first)

README = (TOP / "README.md").read_text(encoding="utf-8")
PROSE = " ".join(README.split())
CPU = ("bsc-64", "CPU us/transaction")
MEMORY = ("idle-memory", "bytes/client, after a query")


def file_in_readme(path):
    """What the README's commands write into it."""
    return re.search(rf"^cat >{re.escape(path)} <<'END'\n(.*?)^END$", README,
                     re.MULTILINE | re.DOTALL).group(1)


def test_the_first_configuration_is_good(make_pgweir, account):
    weir = make_pgweir()
    text = file_in_readme("/etc/pgweir/pgweir.ini")
    for ours, theirs in (("/etc/pgweir/userlist.txt", weir.userlist),
                         ("/run/pgweir", str(pathlib.Path(weir.socket_path).parent)),
                         ("user = pgweir", f"user = {account.name}")):
        assert ours in text
        text = text.replace(ours, theirs)
    account.write(weir.ini, text)
    account.write(weir.userlist, file_in_readme("/etc/pgweir/userlist.txt"))
    account.own(weir.userlist, 0o640)
    done = weir.run("--check", weir.ini)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stdout.lower() + done.stderr.lower()


def packages_in_readme():
    """Those of each apt-get install, as sets."""
    commands = re.findall(r"^apt-get install --no-install-recommends ((?:.*\\\n)*.*)$", README,
                          re.MULTILINE)
    return [set(command.replace("\\\n", " ").split()) for command in commands]


def packages_of(name):
    """A list of packages that quickstart and the tests install."""
    script = f'. {shlex.quote(str(TOP / "test" / "lib" / "common.sh"))}; echo ${name}'
    return set(subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30,
                              check=True).stdout.split())


def build_dependencies():
    """Packages that etc/debian/control names, without versions and profiles."""
    control = (TOP / "etc" / "debian" / "control").read_text(encoding="utf-8")
    needed = re.search(r"^Build-Depends:\n((?: .*\n)+)", control, re.MULTILINE).group(1)
    return {line.split()[0].strip(",") for line in needed.splitlines()}


def test_packages():
    for_package, for_source = packages_in_readme()
    assert for_source == packages_of("packages_build")
    # What dpkg-buildpackage takes for granted; what debhelper-compat means.
    assert for_package == (build_dependencies() - {"debhelper-compat"}
                           | {"build-essential", "debhelper"})


def test_figures_are_those_of_the_page():
    medians = document.medians_in((TOP / "doc" / "performance.md").read_text(encoding="utf-8"))
    cpu, memory = medians[CPU], medians[MEMORY]
    for text in (f"{cpu['pgweir'] / cpu['pgbouncer']:.1f} times PgBouncer's CPU time",
                 f"{memory['pgweir']:.0f} bytes of memory per idle client",
                 f"pgweir needs {cpu['pgweir']:.0f} µs and {memory['pgweir']:.0f} bytes",
                 f"needs {cpu['pgbouncer']:.0f} µs and {memory['pgbouncer']:.0f} bytes"):
        assert text in PROSE


def test_counts_of_the_restart_are_those_that_were_measured():
    measured = json.loads((TOP / "doc" / "performance" / "restart.json").read_text())
    take_over, restart = measured["ways"]["take-over"], measured["ways"]["restart"]
    assert not sum(take_over["failed"]) + sum(take_over["refused"])
    assert (f"by an ordinary restart {sum(restart['failed'])} failed and"
            f" {sum(restart['refused'])} connections were refused") in PROSE


def test_pictures_and_pages_exist():
    paths = re.findall(r'(?:src|srcset)="([^"]*)"', README)
    assert len(paths) == 6
    for path in paths:
        assert (TOP / path).is_file(), path


def test_drivers_and_fuzz_targets_are_counted():
    drivers = PROSE.split("- Eight drivers in transaction mode: ")[1].split(". - ")[0].split(", ")
    pooling = (TOP / "doc" / "pooling.md").read_text(encoding="utf-8")
    table = pooling.split("| Driver | Version |")[1].split("\n\n")[0]
    assert len(drivers) == 8
    assert set(drivers) == set(re.findall(r"^\| ([a-z][\w.-]*) \|", table, re.MULTILINE))
    targets = len(list((TOP / "test" / "fuzz").glob("*_fuzz.c")))
    assert f"{targets} fuzz targets" in PROSE
