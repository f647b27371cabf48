"""The project's checks: lint, types, tests; on demand faults, mpi, bench, learn."""

import nox

CONSTRAINTS = ".ci/constraints.txt"

nox.options.sessions = ["lint", "types", "tests"]
nox.options.stop_on_first_error = True


def install(session: nox.Session, *packages: str) -> None:
    """The exact versions that CI uses."""
    session.install("-c", CONSTRAINTS, *packages)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and common mistakes."""
    install(session, "ruff")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Static types of the package."""
    install(session, "-e", ".", "mypy", "types-PyYAML")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """All tests but the slow ones; arguments after `--` go to pytest.

    Those of the report's page are skipped where there is no Chromium.
    """
    install(session, "-e", ".[test]")
    session.run("pytest", "--numprocesses", "auto", *session.posargs)


@nox.session
def faults(session: nox.Session) -> None:
    """Runs and grids killed again and again, full disks, races; takes an hour."""
    install(session, "-e", ".[test]")
    session.run("pytest", "-m", "faults", *session.posargs)
    session.run("python", "benchmarks/faults.py")


@nox.session
def mpi(session: nox.Session) -> None:
    """Two and three processes with one and two devices each, in all their troubles."""
    install(session, "-e", ".[test]")
    session.run(
        "pytest",
        "-m",
        "mpi or not mpi",
        "tests/test_parallel.py",
        "tests/test_processes.py",
    )


@nox.session
def bench(session: nox.Session) -> None:
    """Speed of the update functions; arguments after `--` go to the script."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/update.py", *session.posargs)


@nox.session
def learn(session: nox.Session) -> None:
    """Learning with the default settings, against marks; takes hours."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/learn.py", *session.posargs)
