"""The programs are built at the same time, once, and only whole ones appear."""

import stat
import sys

import pytest

from localcluster import build

GO = f"""#!{sys.executable}
import os, pathlib, sys, time
words, folder = sys.argv[1:], pathlib.Path(os.environ.get("GOTMPDIR", "."))
if words[0] == "env":
    print("go1.26.8")
elif words[0] == "list":
    print("package")
else:
    output = pathlib.Path(words[words.index("-o") + 1])
    (folder / (output.name + ".begun")).touch()
    deadline = time.monotonic() + 60
    while len(list(folder.glob("*.begun"))) < 2:
        if time.monotonic() > deadline:
            sys.exit("the other build has not begun")
        time.sleep(0.01)
    if output.name == os.environ.get("BROKEN"):
        sys.exit("undefined: Kubernetes")
    output.write_text(" ".join(os.environ[name] for name in ("GOGC", "CGO_ENABLED")))
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


def test_both_are_built_at_the_same_time_and_kept(cache, monkeypatch):
    programs = build.binaries()
    for path in (programs.controlplane, programs.kwok):
        assert path.read_text() == "400 0"
        assert path.stat().st_mode & stat.S_IXUSR
    monkeypatch.setenv("BROKEN", "kwok")  # nothing is built again
    assert build.binaries() == programs
    assert {path.name for path in cache.iterdir()} == {
        "lock",
        programs.controlplane.name,
        programs.kwok.name,
    }


def test_the_settings_of_the_caller_go_before_ours(cache, monkeypatch):
    monkeypatch.setenv("GOGC", "50")
    assert build.binaries().kwok.read_text() == "50 0"


def test_a_build_that_fails_is_told_with_the_compilers_words_and_leaves_the_other(cache, monkeypatch):
    monkeypatch.setenv("BROKEN", "kwok")
    with pytest.raises(build.BuildFailed, match=r"kwok cannot be built:\n +undefined: Kubernetes"):
        build.binaries()
    assert [path.name.partition("-")[0] for path in sorted(cache.iterdir())] == ["controlplane", "lock"]
