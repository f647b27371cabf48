"""A short run of the fuzzer, and that it finds what it looks for."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="needs the /proc of Linux"
)


def python(*words):
    """What a program of the fuzzer prints."""
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_hundred_cases_of_mutated_input():
    assert "100 of 100 cases passed" in python("tests.fuzz", "--cases", "100")


@pytest.mark.faults
def test_the_fuzzer_notices_every_kind_of_failure():
    python("tests.fuzz.faulty")
