"""The exercises: right files pass, and wrong ones are told what is wrong."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxrl import algos, exercises
from jaxrl.cli.main import main
from jaxrl.exercises import planted

FUNCTIONS = ("log_likelihood", "gae", "ppo_loss", "td3_target")
NUMBERS = {name: i for i, name in enumerate(FUNCTIONS, 1)}
SOLUTIONS = {
    "log_likelihood": """
import jax.numpy as jnp


def log_likelihood(x, mean, log_std):
    z = (x - mean) / jnp.exp(log_std)
    return jnp.sum(-0.5 * z**2 - log_std - 0.5 * jnp.log(2 * jnp.pi), axis=-1)
""",
    "gae": """
import jax.numpy as jnp


def gae(reward, value, next_value, terminated, truncated, gamma, lam):
    delta = reward + gamma * (1 - terminated) * next_value - value
    advantages, after = [], jnp.zeros(reward.shape[1])
    for t in reversed(range(len(reward))):
        go_on = 1 - jnp.maximum(terminated[t], truncated[t])
        after = delta[t] + gamma * lam * go_on * after
        advantages.append(after)
    return jnp.stack(advantages[::-1])
""",
    "ppo_loss": """
import jax.numpy as jnp


def ppo_loss(log_prob, old_log_prob, advantage, clip_ratio):
    ratio = jnp.exp(log_prob - old_log_prob)
    clipped = jnp.clip(ratio, 1 - clip_ratio, 1 + clip_ratio)
    return -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
""",
    "td3_target": """
import jax.numpy as jnp


def td3_target(
    reward, terminated, next_action, draws, q1, q2, gamma, target_noise, noise_clip
):
    noise = jnp.clip(target_noise * draws, -noise_clip, noise_clip)
    action = jnp.clip(next_action + noise, -1, 1)
    return reward + gamma * (1 - terminated) * jnp.minimum(q1(action), q2(action))
""",
}
# A part of a solution, what replaces it, and a word of the answer.
WRONG = [
    ("log_likelihood", " - 0.5 * jnp.log(2 * jnp.pi)", "", "2π"),
    ("log_likelihood", " - log_std", "", "log σ"),
    ("log_likelihood", "jnp.exp(log_std)", "log_std", "exp"),
    ("log_likelihood", ", axis=-1", "", "last axis"),
    ("log_likelihood", "jnp.sum", "jnp.mean", "sum"),
    ("log_likelihood", "return ", "x = ", "None"),
    ("log_likelihood", "-0.5 * z**2", "-0.3 * z**2", "and not"),
    ("gae", "* (1 - terminated) ", "", "true end"),
    ("gae", "(1 - terminated)", "(1 - terminated) * (1 - truncated)", "time limit"),
    ("gae", "jnp.maximum(terminated[t], truncated[t])", "terminated[t]", "truncated"),
    ("gae", "gamma * lam *", "gamma *", "λ"),
    ("gae", "advantages[::-1]", "advantages", "and not"),
    ("ppo_loss", "-jnp.mean", "jnp.mean", "sign"),
    ("ppo_loss", "jnp.minimum", "jnp.maximum", "maximum"),
    ("ppo_loss", "clipped = jnp.clip", "jnp.clip", "clipped"),
    ("ppo_loss", "ratio * advantage, clipped", "clipped * advantage, clipped", "with"),
    ("ppo_loss", "log_prob - old_log_prob", "old_log_prob - log_prob", "upside down"),
    ("td3_target", "(1 - terminated) * ", "", "true end"),
    ("td3_target", "jnp.minimum", "jnp.maximum", "minimum"),
    ("td3_target", "jnp.clip(next_action + noise, -1, 1)", "next_action + noise", "-1"),
    ("td3_target", "target_noise * draws", "draws", "σ"),
]


def check(number, text, path, capsys):
    """The exit code of the checker and what it printed."""
    path.write_text(text)
    code = main(["exercise", str(number), "--check", str(path)])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_right_function_passes(name, tmp_path, capsys):
    code, shown = check(NUMBERS[name], SOLUTIONS[name], tmp_path / "my.py", capsys)
    assert code == 0, shown
    assert "jaxrl/" in shown  # where the library's own is


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_template_is_not_written_yet(name, tmp_path, capsys):
    template = exercises.every()[NUMBERS[name]].template
    code, shown = check(NUMBERS[name], template, tmp_path / "my.py", capsys)
    assert code == 1
    assert name in shown
    assert "written" in shown


@pytest.mark.parametrize(("name", "right", "wrong", "word"), WRONG)
def test_a_wrong_function_is_explained(name, right, wrong, word, tmp_path, capsys):
    assert right in SOLUTIONS[name]
    text = SOLUTIONS[name].replace(right, wrong)
    if word == "clipped":
        text = text.replace("jnp.minimum(ratio * advantage, clipped", "(ratio")
    code, shown = check(NUMBERS[name], text, tmp_path / "my.py", capsys)
    assert code == 1
    assert word.replace("-1", "−1") in shown


@pytest.mark.parametrize("name", FUNCTIONS)
def test_known_mistakes_differ_from_the_solution_and_from_each_other(name):
    task = importlib.import_module(f"jaxrl.exercises.{name}").TASK
    functions = {"right": task.reference} | task.mistakes
    results = {}
    for sentence, function in functions.items():
        values = [np.ravel(function(*args)) for args in task.cases.values()]
        results[sentence] = np.concatenate(values)
    for one in results:
        for other in results:
            same = np.allclose(results[one], results[other], equal_nan=True)
            assert (one == other) == same, (one, other)


def test_numpy_instead_of_jax_is_explained(tmp_path, capsys):
    text = SOLUTIONS["log_likelihood"].replace("jax.numpy as jnp", "numpy as jnp")
    code, shown = check(1, text, tmp_path / "my.py", capsys)
    assert code == 1
    assert "jax.jit" in shown


def test_a_wrong_gradient_is_noticed(tmp_path, capsys):
    text = SOLUTIONS["ppo_loss"].replace("import jax.numpy", "import jax, jax.numpy")
    text = text.replace("log_prob - old_log_prob", "jax.lax.stop_gradient(log_prob)")
    text = text.replace("(log_prob))", "(log_prob) - old_log_prob)")
    code, shown = check(3, text, tmp_path / "my.py", capsys)
    assert code == 1
    assert "gradient" in shown


def test_an_error_in_the_file_names_its_line(tmp_path, capsys):
    text = "def gae(*args):\n    return 1 / 0\n"
    code, shown = check(2, text, tmp_path / "my.py", capsys)
    assert code == 1
    assert "line 2" in shown
    assert "ZeroDivisionError" in shown


@pytest.mark.parametrize("number", range(len(planted.BUGS)))
def test_a_broken_algorithm_is_named_and_the_right_one_passes(number, tmp_path, capsys):
    bug = planted.BUGS[number]
    path = tmp_path / "my.py"
    assert main(["exercise", str(number + 5), "--write", str(path)]) == 0
    broken = path.read_text()
    code, shown = check(number + 5, broken, path, capsys)
    assert code == 1
    assert {"ddpg": "value", "vpg": "actor", "sac": "target"}[bug.algo] in shown
    right = Path(algos.__file__).with_name(f"{bug.algo}.py").read_text()
    code, shown = check(number + 5, right, path, capsys)
    assert code == 0, shown


def test_vpg_is_also_mended_by_stop_gradient(tmp_path, capsys):
    text = planted.text(planted.BUGS[1]).replace(
        "old_log_prob = log_prob",
        "old_log_prob = jax.lax.stop_gradient(log_prob)",
    )
    code, shown = check(6, text, tmp_path / "my.py", capsys)
    assert code == 0, shown


def test_another_change_of_a_mended_algorithm_is_noticed(tmp_path, capsys):
    right = Path(algos.__file__).with_name("sac.py").read_text()
    text = right.replace("- jnp.exp(state.log_alpha.params) * log_prob", "")
    assert text != right
    code, shown = check(7, text, tmp_path / "my.py", capsys)
    assert code == 1
    assert "critic" in shown


def test_exercises_are_listed_and_printed(capsys):
    assert main(["exercise"]) == 0
    listed = capsys.readouterr().out
    for number, exercise in exercises.every().items():
        assert exercise.title in listed
        assert main(["exercise", str(number)]) == 0
        shown = capsys.readouterr().out
        assert exercise.task in shown
        assert max(map(len, shown.splitlines())) <= 88


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["8"], "choose 1 to 7"),
        (["gae"], "'gae'"),
        (["9" * 5000], "choose 1 to 7"),
        (["1", "--check", "none.py"], "--write"),
        (["1", "--check", "none.txt"], ".py"),
        (["1", "--write", "my.txt"], ".py"),
        (["1", "--write", "my.py", "--check", "my.py"], "--check"),
        (["--check", "my.py"], "NUMBER"),
        (["1", "--write", "no/such/my.py"], "cannot write"),
        (["1", "--chek", "my.py"], "'--check'"),
    ],
)
def test_bad_arguments_are_refused(words, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["exercise", *words]) == 2
    assert part in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_checked_are_refused(tmp_path, capsys):
    for text, word in (("x = 1\n", "define"), ("def gae(:\n", "line 1")):
        code, shown = check(2, text, tmp_path / "my.py", capsys)
        assert code == 2
        assert word in shown
    code, shown = check(5, "x = 1\n", tmp_path / "my.py", capsys)
    assert code == 2
    assert "update" in shown


def test_writing_overwrites_nothing(tmp_path, capsys):
    path = tmp_path / "my.py"
    path.write_text("mine")
    assert main(["exercise", "1", "--write", str(path)]) == 2
    assert "overwritten" in capsys.readouterr().err
    assert path.read_text() == "mine"


def test_reading_a_task_does_not_import_jax():
    code = "from jaxrl.cli.main import main; import sys; main(['exercise', '5']); "
    code += "assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
