"""The rooms of the package, who may enter them, and how large a file may grow."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jaxrl"
FILES = sorted(PACKAGE.rglob("*.py"))

# A room imports itself and these; a new edge is a decision.
ALLOWED = {
    "errors": set(),
    "files": set(),
    "user_modules": set(),
    "yaml_lines": {"errors", "files"},
    "settings": {"errors", "yaml_lines"},
    "spaces": set(),
    "images": {"spaces"},
    "sampling": {"errors"},
    "types": {"settings", "spaces"},
    "checks": {"types", "settings"},
    "maths": {"types", "settings", "images", "policy", "user_modules"},
    "algos": {"errors", "files", "types", "settings", "checks", "maths"},
    "envs": {
        "errors",
        "spaces",
        "user_modules",
        "processes",
    },  # for signals in worker processes
    "policy": {"files", "settings", "spaces", "images"},
    "evaluation": {"errors"},
    "processes": {"errors", "files"},
    "callbacks": {"errors", "logging"},  # what a user may import
    "logging": {"files", "processes"},
    "parallel": {"errors", "types", "maths", "processes", "logging"},
    "runs": {
        *("errors", "files", "yaml_lines", "types", "settings", "algos", "policy"),
        *("processes", "logging", "parallel"),
    },
    "show": {
        *("__version__", "errors", "files", "spaces", "images", "maths", "algos"),
        *("envs", "policy", "evaluation", "logging", "runs"),
    },
    "training": {
        *("errors", "files", "types", "checks", "maths", "algos", "envs", "policy"),
        *("evaluation", "processes", "logging", "parallel", "runs", "callbacks"),
    },
    "contracts": {"types", "maths", "envs", "training"},
    "exercises": {"errors", "types", "maths", "algos", "contracts"},
    "experiments": {
        *("errors", "files", "yaml_lines", "settings", "sampling", "algos", "envs"),
        *("processes", "logging", "runs", "training"),
    },
    "cli": {
        *("__version__", "errors", "files", "yaml_lines", "settings", "algos"),
        *("evaluation", "processes", "logging", "runs", "training", "contracts"),
        *("exercises", "experiments", "show"),
    },
    "api": {
        "errors",
        "spaces",
        "envs",  # for the type of what a user gives
        "settings",
        "maths",
        "algos",
        "policy",
        "evaluation",
        "runs",
        "training",
        "experiments",
        "show",
    },
    "__main__": {"cli", "processes"},
}
# Third parties that only some rooms may name.
ONLY = {
    "gymnasium": {"envs", "api"},  # there for the type of an environment
    "envpool": {"envs"},
    "flax": {"maths"},
    "mpi4py": {"parallel"},
    "orbax": {"runs"},
    "tensorstore": {"runs"},
    "tensorboardX": {"logging"},
    "matplotlib": {"show", "api"},  # there for the type of a figure
    "pandas": {"runs"},
    "imageio": {"show"},
    "imageio_ffmpeg": {"show"},
    "onnx": {"show"},
    "PIL": {"show"},
    "optuna": {"experiments"},
    "submitit": {"experiments"},
    "argparse": {"cli", "runs"},  # there for a user's settings, a Namespace
    "rich": {"logging", "experiments", "cli"},
}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Modules a file imports, as dotted names; `from a import b` counts as a.b."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def functions(path: Path) -> list[ast.FunctionDef]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.FunctionDef)]


inside = [path for path in FILES if path != PACKAGE / "__init__.py"]
each_file = pytest.mark.parametrize(
    "path", inside, ids=lambda path: str(path.relative_to(PACKAGE))
)
each_algorithm = pytest.mark.parametrize(
    "path",
    [
        p
        for p in inside
        if room(p) == "algos" and p.stem not in ("__init__", "presets", "user_files")
    ],
    ids=lambda path: path.stem,
)


@each_file
def test_rooms_import_one_way(path):
    own = {name.split(".")[1] for name in imports(path) if name.startswith("jaxrl.")}
    assert own - {room(path)} <= ALLOWED[room(path)]


def test_the_docs_list_every_room_below_those_that_it_imports():
    text = (ROOT / "docs" / "explanations" / "run-flow.md").read_text()
    listed = re.findall(r"^\| \{file\}`jaxrl/([\w.]+)` \|", text, re.M)
    names = {name.removesuffix(".py") for name in listed}
    assert names == ALLOWED.keys() - {"__main__"}
    folders = [name for name in listed if (PACKAGE / name).is_dir()]
    for i, name in enumerate(folders):
        assert not ALLOWED[name] & set(folders[i:]), name


def test_every_file_that_the_readme_links_to_exists():
    text = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text)
    links += re.findall(r'src="([^"]+)"', text)
    assert len(links) > 30
    assert not {link for link in links if not (ROOT / link).exists()}
    for page, anchor in re.findall(r"\]\(([\w./-]+)#([\w-]+)\)", text):
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.M)
        assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


@each_file
def test_third_parties_stay_in_their_rooms(path):
    outside = {name.split(".")[0] for name in imports(path)}
    strangers = {name for name in outside & ONLY.keys() if room(path) not in ONLY[name]}
    assert not strangers


@each_algorithm
def test_an_algorithm_fits_in_one_sitting(path):
    assert len(path.read_text().splitlines()) < 200


@each_algorithm
def test_an_algorithm_imports_no_other(path):
    assert not {name for name in imports(path) if name.startswith("jaxrl.algos")}


@each_algorithm
def test_an_algorithm_opens_with_its_equations_and_has_the_six_names_in_order(path):
    tree = ast.parse(path.read_text())
    assert " = " in ast.get_docstring(tree)
    defined = [
        node.targets[0].id if isinstance(node, ast.Assign) else node.name
        for node in tree.body
        if isinstance(node, ast.Assign | ast.ClassDef | ast.FunctionDef)
    ]
    six = ["DATA", "Config", "State", "init", "act", "update"]
    assert [name for name in defined if name in six] == six


@each_algorithm
def test_every_setting_has_its_sentence(path):
    tree = ast.parse(path.read_text())
    (config,) = (
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "Config"
    )
    fields, sentences = config.body[::2], config.body[1::2]
    assert all(isinstance(node, ast.AnnAssign) for node in fields)
    assert len(fields) == len(sentences)
    for sentence in sentences:
        text = sentence.value.value
        assert text.endswith(".")
        assert "\n" not in text


@each_file
def test_no_function_is_longer_than_a_page(path):
    lengths = {node.name: node.end_lineno - node.lineno + 1 for node in functions(path)}
    assert not {name: length for name, length in lengths.items() if length > 60}


@each_file
def test_a_file_and_its_classes_have_a_readable_size(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    classes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ClassDef)]
    lengths = {node.name: node.end_lineno - node.lineno + 1 for node in classes}
    assert not {name: length for name, length in lengths.items() if length > 200}


@each_file
def test_nothing_runs_a_strangers_code(path):
    named = {n.id for n in ast.walk(ast.parse(path.read_text())) if type(n) is ast.Name}
    assert not named & {"eval", "exec", "pickle"}
    assert not {name for name in imports(path) if "pickle" in name}
