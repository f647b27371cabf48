"""The command line: one parser, its help, its suggestions and shell completion."""

import re
import shutil
import subprocess
import sys

import pytest
import yaml

import jaxrl
from jaxrl.algos import NAMES
from jaxrl.cli import flags, options, setting_flags
from jaxrl.cli.main import COMMANDS, main
from jaxrl.errors import UserError

MAIN = "from jaxrl.cli.main import main; "
HEAVY = ("jax", "flax", "optax", "gymnasium", "matplotlib", "optuna")


def in_a_new_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_public_names_are_all_that_the_package_shows():
    expected = {"train", "resume", "search", "load", "evaluate_policy", "Grid", "algos"}
    expected |= {"Logger", "load_model", "random_search", "callbacks", "STOP"}
    expected |= {"plot", "report", "record_video", "runs"}
    assert set(dir(jaxrl)) == set(jaxrl.__all__) == expected | {"__version__"}
    for name in jaxrl.__all__:
        assert getattr(jaxrl, name) is not None
    assert jaxrl.algos.NAMES == NAMES
    with pytest.raises(AttributeError, match="trian"):
        _ = jaxrl.trian


@pytest.mark.parametrize(
    "code",
    [
        "import jaxrl",
        *(
            f"from jaxrl.cli.main import main; main([{c!r}, '--help'])"
            for c in COMMANDS
        ),
        "from jaxrl.cli.main import main; main(['train', 'sac', '--help'])",
        "from jaxrl.cli.main import main; main(['grid', 'ppo', '--help'])",
        "from jaxrl.cli.main import main; main(['completion', 'bash'])",
        "from jaxrl.cli.main import main; main(['train', 'sac', '--gama', '1'])",
    ],
)
def test_looking_does_not_wait_for_jax(code):
    end = f"; import sys; print('heavy', [x for x in {HEAVY} if x in sys.modules])"
    assert in_a_new_process(code + end).endswith("heavy []\n")


def test_every_command_has_a_parser():
    assert {*options.OPTIONS, *options.WITH_SETTINGS} == set(COMMANDS)


@pytest.mark.parametrize("width", [60, 120])
@pytest.mark.parametrize("command", [[x] for x in COMMANDS] + [["train", "ppo"]])
def test_help_fits_the_terminal(command, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([*command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    body = lines[lines.index("") :]  # a usage is not wrapped
    assert max(map(len, body)) <= width


def settings(*words: str) -> dict:
    parser = setting_flags.train(["sac", *words])
    found = setting_flags.parsed(parser, ["sac", *words], ("algo", "config"))
    return {key: value for key, value in found.items() if key != "verbose_ranks"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--batch-size", "3"], {"batch_size": "3"}),
        (["--batch_size=3"], {"batch_size": "3"}),
        (["--wandb"], {"wandb": "true"}),
        (["--wandb", "false"], {"wandb": "false"}),
        (["--wandb=no", "--seed", "1"], {"wandb": "no", "seed": "1"}),
        (
            ["--no-wandb", "--no_learn_alpha"],
            {"wandb": "false", "learn_alpha": "false"},
        ),
        (["--alpha", "-inf"], {"alpha": "-inf"}),
        (["--hidden", "-1,2"], {"hidden": "-1,2"}),
        (["--gama", "0.9", "--seed", "1"], {"gama": "0.9", "seed": "1"}),
        (["--exp_name", "a b"], {"exp_name": "a b"}),
    ],
)
def test_flags_are_read_in_every_way_to_write_them(words, expected):
    assert settings(*words) == expected


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["eval", "x", "--checkpoint", "best"], "now --model"),
        (["eval", "x", "--n_eval_episodes", "3"], "now --num_test_episodes"),
        (["video", "x", "--epsiodes", "3"], "'--episodes'"),
        (["eval", "x", "--num-test-episodes"], "--num_test_episodes N"),
        (["eval", "x", "-n", "0"], "--num_test_episodes is '0'"),
        (["plot"], "PATH"),
        (["grid", "sac", "--jobs", "-3"], "--jobs is '-3'"),
        (["grid", "sac", "--launcher", "slrm"], "'slurm'"),
        (["completion", "cmd"], "bash"),
    ],
)
def test_a_mistake_is_explained(words, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert part in capsys.readouterr().err


def test_a_missing_algorithm_file_is_the_commands_mistake(tmp_path, capsys):
    settings = tmp_path / "settings.yaml"
    settings.write_text("gamma: 0.9\n")
    for config in ([], ["--config", str(settings)]):
        assert main(["train", "./nowhere.py", "--env", "CartPole-v1", *config]) == 2
        said = capsys.readouterr().err
        assert said.removeprefix("jaxrl: ")[0].isalpha()
        assert "settings.yaml" not in said


def test_a_grid_takes_switches_lists_shorthands_and_parts(capsys):
    line = "grid sac --env A --no-learn_alpha --wandb true false --lr[rate] 1 2"
    words = [*line.split()[1:], "--env_kwargs:g", "-1", "--seed", "-1", "3"]
    given, unknown = setting_flags.grid(words).parse_some(words)
    own = setting_flags.several({k: getattr(given, k) for k in ("wandb", "seed")})
    assert own == {"wandb": ["true", "false"], "seed": ["-1", "3"]}
    assert given.learn_alpha == [["false"]]
    assert unknown == {"lr[rate]": ["1", "2"], "env_kwargs:g": ["-1"]}
    assert setting_flags.several({"wandb": [[]]}) == {"wandb": ["true"]}
    with pytest.raises(UserError, match="twice"):
        setting_flags.several({"seed": [["0"], ["1"]]})


def test_rerun_shows_the_settings_of_the_runs_algorithm(tmp_path, capsys):
    known = {"algo": "td3", "env": "A", "exp_name": "x", "seed": 0}
    text = yaml.safe_dump(known | {"settings": {"max_ep_len": 9}})
    (tmp_path / "config.yaml").write_text(text)
    assert main(["rerun", str(tmp_path), "--help"]) == 0
    assert "--policy_delay" in capsys.readouterr().out


def test_peeking_finds_a_value_in_both_ways():
    assert flags.peek(["a", "--config", "x"], "--config") == "x"
    assert flags.peek(["--config=x"], "--config") == "x"
    assert flags.peek(["--config"], "--config") == ""
    assert flags.peek(["--confirm", "x"], "--config") is None


def test_no_seeds_are_a_mistake(capsys):
    assert main(["train", "ppo", "--env", "phys2d/CartPole-v1", "--seeds", ""]) == 2
    assert "--seeds 16" in capsys.readouterr().err


# Completion


def completed(script: str, *words: str) -> list[str]:
    line = " ".join(f"'{word}'" for word in words)
    tail = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _jaxrl; "
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{tail}printf '%s\n' \"${{COMPREPLY[@]}}\""],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_algorithms_and_flags(capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "jaxrl", "re") == ["resume", "rerun", "report"]
    assert completed(script, "jaxrl", "train", "s") == ["sac"]
    assert completed(script, "jaxrl", "train", "sac", "--gam") == ["--gamma"]
    assert completed(script, "jaxrl", "train", "sac", "--clip") == []
    assert completed(script, "jaxrl", "grid", "ppo", "--clip") == ["--clip_ratio"]
    assert completed(script, "jaxrl", "eval", "dir", "--mod") == ["--model"]
    assert completed(script, "jaxrl", "rerun", "dir", "--clip") == ["--clip_ratio"]
    assert completed(script, "jaxrl", "train", "ppo", "--total") == []  # internal


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("train sac --activation ", "tanh relu elu gelu silu"),
        ("train sac --activation r", "relu"),
        ("train sac --seed 1 --preset ", "auto default spinup jax"),
        ("train sac --activation relu --gam", "--gamma"),
        ("grid ppo --activation tanh re", "relu"),
        ("grid ppo --launcher ", "local slurm"),
        ("rerun dir --activation e", "elu"),
        ("video dir --model ", "last best"),
        ("completion z", "zsh"),
    ],
)
def test_bash_completes_the_values_of_flags_with_a_choice(line, expected, capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "jaxrl", *line.split(" ")) == expected.split()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_words(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("rerun", "sac", "clip_ratio", "episodes", "tanh relu", "last best"):
        assert word in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


# After a run

OWN_ENV = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
gymnasium.register("Own-v0", lambda **given: CartPoleEnv(**given))
"""

OWN_NETS = """
import flax.linen as nn
from jaxrl.maths.nets import CategoricalPolicy, Networks, Value
def networks(spec):
    return Networks(CategoricalPolicy(nn.Dense(2)), Value(nn.Dense(1)))
"""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (OWN_ENV, "--env my_module:Own-v0"),
        (OWN_NETS, "--env CartPole-v1 --networks my_module:networks"),
    ],
)
def test_hints_after_a_run_with_a_module_from_here_work_as_typed(tmp_path, code, words):
    (tmp_path / "my_module.py").write_text(code)
    jaxrl_here = f"{sys.executable} -P -m jaxrl "  # as the installed command
    line = f"train ppo {words} --steps 64 --steps_per_epoch 64 --hidden 4"

    def typed(line):
        options = {"capture_output": True, "text": True, "cwd": tmp_path}
        done = subprocess.run(line.replace("jaxrl ", jaxrl_here), shell=True, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    printed = typed(f"jaxrl {line}")
    hints = [hint.strip() for hint in re.split(r"\n|\s{4,}", printed)]
    (plot,) = (hint for hint in hints if " plot " in f" {hint}")
    (evaluate,) = (hint for hint in hints if " eval " in f" {hint}")
    assert "PYTHONPATH" not in plot
    typed(plot)
    assert "AverageEpRet" in typed(f"{evaluate} -n 1")
