# SPDX-License-Identifier: ISC
"""Tests of the tests' own kit: which commit is a release."""

import subprocess

import pytest

from .kit import release


@pytest.fixture
def history(tmp_path, monkeypatch):
    """A repository whose changelog has dated 0.1.0 and 0.2.0; commit(text) adds to it."""
    def git(*args):
        done = subprocess.run(["git", "-C", tmp_path / "r", "-c", "user.name=a", "-c",
                               "user.email=a@b", *args], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(text):
        (tmp_path / "r" / "CHANGELOG.md").write_text(text)
        git("add", "-A")
        git("commit", "-qm", "a change")
        return git("rev-parse", "HEAD")

    (tmp_path / "r").mkdir()
    git("init", "-q")
    monkeypatch.setattr(release, "TOP", str(tmp_path / "r"))
    return commit


def test_the_commit_that_dates_it(history):
    history("## [0.1.0] - unreleased\n")
    first = history("## [0.1.0] - 2026-11-22\n")
    history("## [0.2.0] - unreleased\n## [0.1.0] - 2026-11-22\n")
    second = history("## [0.2.0] - 2026-11-22\n## [0.1.0] - 2026-11-22\n")
    history("## [Unreleased]\n## [0.2.0] - 2026-11-22\n## [0.1.0] - 2026-11-22\nmore\n")
    assert release.find_commit("0.1.0") == first
    assert release.find_commit("0.2.0") == second


def test_a_whole_history_without_it(history):
    history("## [0.3.0] - unreleased\n")
    with pytest.raises(release.Lacking):
        release.find_commit("0.3.0")


def test_a_shallow_clone(history, tmp_path, monkeypatch):
    history("## [0.3.0] - 2026-11-23\n")
    history("## [0.3.0] - 2026-11-23\nmore\n")
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{tmp_path}/r", tmp_path / "shallow"],
                   check=True, capture_output=True)
    monkeypatch.setattr(release, "TOP", str(tmp_path / "shallow"))
    with pytest.raises(release.Absent, match="shallow"):
        release.find_commit("0.3.0")


def test_no_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "TOP", str(tmp_path))
    with pytest.raises(release.Absent):
        release.find_commit("0.3.0")
