"""Files of the project that must agree with each other."""

import re
from pathlib import Path

import yaml

import jaxrl

ROOT = Path(__file__).parents[1]


def read(name):
    return (ROOT / name).read_text()


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load(read("CITATION.cff"))["version"] == jaxrl.__version__
    newest = re.search(r"^## (\S+)$", read("CHANGELOG.md"), re.M)[1]
    assert newest in (jaxrl.__version__, "Unreleased")


def test_hooks_use_the_ruff_of_the_constraints():
    (version,) = re.findall(r"^ruff==\S+$", read(".ci/constraints.txt"), re.M)
    hooks = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    assert len(hooks) == 2
    for hook in hooks:
        assert hook["additional_dependencies"] == [version]


def test_the_workflow_and_the_guide_name_sessions_of_nox_that_exist():
    sessions = set(re.findall(r"@nox.session.*\ndef (\w+)", read("noxfile.py")))
    workflow = yaml.safe_load(read(".github/workflows/ci.yml"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [step.get("run", "") for step in steps]
    named = {
        name
        for line in [*commands, *read("CONTRIBUTING.md").split("`")]
        for call in re.findall(r"nox -s ([\w ]+)", line)
        for name in call.split()
    }
    assert {"lint", "types", "tests", "notebooks", "wheel"} <= named & sessions
    assert named <= sessions


def test_the_workflow_tests_every_python_that_the_package_names():
    named = set(re.findall(r"Python :: (3\.\d+)", read("pyproject.toml")))
    jobs = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]
    assert set(jobs["tests"]["strategy"]["matrix"]["python"]) == named


def test_files_that_the_guide_names_exist():
    links = re.findall(r"`([\w./]+\.(?:py|md|txt|cff))`", read("CONTRIBUTING.md"))
    missing = {link for link in links if not (ROOT / link).exists()}
    assert missing <= {"my_algo.py"}


def test_templates_of_exercises_are_in_the_package():
    data = re.search(r"^jaxrl = \[(.*py.typed.*)\]$", read("pyproject.toml"), re.M)[1]
    assert "exercises/templates/*.py" in data
