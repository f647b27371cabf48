"""The project's checks: `nox` runs the first seven sessions, `nox -l` lists all."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nox

CONSTRAINTS = ".ci/constraints.txt"
NEWER_PYTHONS = ("3.13", "3.12")  # in order of preference
NEWEST_TESTS = ("contracts", "parallel", "resume", "train")

nox.options.sessions = [
    *("lint", "types", "docs", "tests", "notebooks", "slurm", "newest")
]
nox.options.stop_on_first_error = True


def install(session: nox.Session, *packages: str) -> None:
    """Install the exact versions that CI uses."""
    session.install("-c", CONSTRAINTS, *packages)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and common mistakes with ruff."""
    install(session, "ruff")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Check the package's types with mypy."""
    install(session, "-e", ".", "mypy", "types-PyYAML")
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the pages in docs/_build/html; a warning or a broken link is an error."""
    install(session, "-e", ".[docs]")
    pages = "docs/_build/html"
    strict = ("-W", "-n", "--keep-going", "-E", "-q")
    session.run("sphinx-build", *strict, "-b", "html", "docs", pages)
    session.run("python", "docs/check_links.py", pages)


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests except the slow ones; arguments after `--` go to pytest.

    Tests of the report's web page are skipped if there is no Chromium.
    """
    install(session, "-e", ".[test]")
    session.run("pytest", "--numprocesses", "auto", *session.posargs)


@nox.session
def notebooks(session: nox.Session) -> None:
    """Run the notebooks with a small budget, the examples and the code of all pages.

    `nox -s notebooks -- --store` runs the notebooks with their full budget and stores
    the outputs.
    """
    install(session, "-e", ".[test]")
    if "--store" in session.posargs:
        files = sorted(map(str, Path("examples").glob("*.ipynb")))
        session.run("python", "tests/notebooks.py", *files)
    else:
        session.run("pytest", "--numprocesses", "auto", "-m", "examples")


@nox.session
def slurm(session: nox.Session) -> None:
    """Run grids on Slurm, whose daemons are started; skipped if there are none."""
    install(session, "-e", ".[test]")
    session.run("pytest", "-m", "slurm", *session.posargs)


@nox.session(venv_backend="none")
def newest(session: nox.Session) -> None:
    """Run the main tests with a newer Python and the newest releases of all packages.

    Skipped if there is no Python 3.12 or 3.13. Arguments after `--` go to pytest.
    """
    interpreter = newer_python()
    if interpreter is None:
        session.skip("found no newer Python (3.12 or 3.13), on PATH or in pyenv")
    # nox would stop with an error where the interpreter is missing, and takes pyenv's
    # shims for interpreters, so the environment is created here.
    directory = Path(".nox", "newest").resolve()
    python = str(directory / "bin" / "python")
    session.run(interpreter, "-m", "venv", "--clear", str(directory), external=True)
    session.run(python, "-m", "pip", "install", "-q", "-e", ".[test]", external=True)
    files = [str(test_file(name)) for name in NEWEST_TESTS]
    pytest = [python, "-m", "pytest", "--numprocesses", "auto", *files]
    session.run(*pytest, *session.posargs, external=True)


def newer_python() -> str | None:
    """The newest of the newer Pythons that this machine can run."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for version in NEWER_PYTHONS:
        found = [sys.executable, shutil.which(f"python{version}")]
        found += [str(path) for path in pyenv.glob(f"{version}.*/bin/python")]
        for python in filter(None, found):
            if has_version(python, version):
                return python
    return None


def has_version(python: str, version: str) -> bool:
    """Whether it is this version and can create virtual environments.

    A shim of pyenv may fail to run, and Debian's Python may lack ensurepip.
    """
    script = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True)
    return done.stdout.strip() == version


def test_file(name: str) -> Path:
    """The file of these tests, in whichever folder it is."""
    (path,) = Path("tests").rglob(f"test_{name}.py")
    return path


@nox.session
def faults(session: nox.Session) -> None:
    """Kill runs and grids many times, fill disks, provoke races; takes an hour."""
    install(session, "-e", ".[test]")
    session.run("pytest", "-m", "faults", *session.posargs)
    session.run("python", "benchmarks/faults.py")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Try 1000 mutated command lines, files and runs; arguments go to tests/fuzz.

    `nox -s fuzz -- --case 123` repeats a case that failed; `--seed 1` makes others.
    """
    install(session, "-e", ".[test]")
    session.run("python", "-m", "tests.fuzz", *session.posargs)


@nox.session
def mpi(session: nox.Session) -> None:
    """Test two and three processes, with one and two devices each, and failures."""
    install(session, "-e", ".[test]")
    files = [str(test_file(name)) for name in ("parallel", "processes", "jax_training")]
    session.run("pytest", "-m", "mpi or not mpi", *files)


@nox.session
def jax_envs(session: nox.Session) -> None:
    """Test JAX environments of other packages, which take 500 MB to install."""
    install(session, "-e", ".[test,gymnax,brax,playground]")
    files = [str(test_file(name)) for name in ("jax_adapters", "jax_training")]
    session.run("pytest", "--numprocesses", "auto", *files, *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the speed of `update`; arguments after `--` go to the script."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/update.py", *session.posargs)


@nox.session
def learn(session: nox.Session) -> None:
    """Train with the default settings on tasks with a target return; takes hours."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/learn.py", *session.posargs)


@nox.session
def learn_jax(session: nox.Session) -> None:
    """The same in JAX environments, with the time it takes; half an hour."""
    install(session, "-e", ".[gymnax,brax,playground]")
    session.run("python", "benchmarks/learn_jax.py", *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build dist/, install only the wheel in an empty environment, train and plot."""
    shutil.rmtree("dist", ignore_errors=True)
    install(session, "build")
    session.run("python", "-m", "build")
    (built,) = Path("dist").resolve().glob("*.whl")
    empty = Path(session.create_tmp(), "empty").resolve()
    session.run("python", "-m", "venv", "--clear", str(empty))
    python, constraints = str(empty / "bin" / "python"), Path(CONSTRAINTS).resolve()
    pip = [python, "-m", "pip", "install", "-q", "-c", str(constraints)]
    session.run(*pip, str(built), external=True)
    jaxrl = [str(empty / "bin" / "jaxrl")]
    with session.chdir(empty):  # where no checkout is found
        train = ["train", "ppo", "--env", "CartPole-v1", "--steps", "20480"]
        session.run(*jaxrl, *train, "--overwrite", external=True)
        session.run(*jaxrl, "plot", "runs", "-o", "curves.png", external=True)
        session.run(*jaxrl, "report", "runs", external=True)
        session.run(*jaxrl, "exercise", "5", external=True)
        for name in ("curves.png", "report.html"):
            if not Path(name).stat().st_size:
                session.error(f"{name} is empty")
