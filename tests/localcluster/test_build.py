"""The programs are built in one run of the compiler, once, and only whole ones appear."""

import stat
import sys

import pytest

from localcluster import build

GO = f"""#!{sys.executable}
import os, pathlib, sys
words = sys.argv[1:]
if words[0] == "env":
    print("go1.26.8")
elif words[0] == "list":
    print("package")
else:
    folder = pathlib.Path(words[words.index("-o") + 1])
    folder.mkdir()
    if os.environ.get("BROKEN"):
        sys.exit("undefined: Kubernetes")
    for package in words[words.index("-o") + 2:]:
        name = "controlplane" if package == "." else package.rpartition("/")[2]
        (folder / name).write_text(" ".join(os.environ[name] for name in ("GOGC", "CGO_ENABLED")))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(go.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("BROKEN", "GOGC"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "osmo-topology"


def test_all_are_built_in_one_run_and_kept(cache, monkeypatch):
    programs = build.binaries()
    for path in (programs.controlplane, programs.kwok, programs.kueue):
        assert path.read_text() == "400 0"
        assert path.stat().st_mode & stat.S_IXUSR
    monkeypatch.setenv("BROKEN", "yes")  # nothing is built again
    assert build.binaries() == programs
    assert {path.name for path in cache.iterdir()} == {
        "durations.json",
        "lock",
        programs.controlplane.name,
        programs.kwok.name,
        programs.kueue.name,
    }


def test_the_settings_of_the_caller_go_before_ours(cache, monkeypatch):
    monkeypatch.setenv("GOGC", "50")
    assert build.binaries().kwok.read_text() == "50 0"


def test_a_build_that_fails_is_told_with_the_compilers_words_and_leaves_nothing(cache, monkeypatch):
    monkeypatch.setenv("BROKEN", "yes")
    words = r"controlplane, kwok, kueue cannot be built:\n +undefined: Kubernetes"
    with pytest.raises(build.BuildFailed, match=words):
        build.binaries()
    assert [path.name for path in cache.iterdir()] == ["lock"]


def test_helm_is_built_by_the_same_way(cache):
    build._build_missing((build.HELM,))
    assert build.artefact(build.HELM).read_text() == "400 0"
