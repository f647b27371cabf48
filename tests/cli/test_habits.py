"""Commands as users of Spinning Up and of experiment managers type them."""

import os
import shlex

import pytest
import yaml
from small_runs import small, table

import jaxrl
from jaxrl.cli import habits, lists
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.runs import nested, reading

COUNT = "own_envs:Count-v0"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("NPROC", os.environ.get("NPROC", "1"))
    monkeypatch.chdir(tmp_path)


def translated(line):
    command, *words = shlex.split(line)
    return " ".join(habits.translated(command, words))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (
            "train ppo --env_name A --hid 64 --l 2 --cpu 4 -s 3",
            "ppo --env A --hidden 64,64 --num_procs 4 --seed 3",
        ),
        (
            "train ppo --hid [64,32] --act torch.nn.Tanh --data-dir d --num_cpu=2",
            "ppo --hidden [64,32] --activation tanh --out d --num_procs=2",
        ),
        (
            "train --algo ppo --ac_kwargs:hidden_sizes=8 --ac_kwargs:activation nn.ELU",
            "ppo --hidden=8 --activation elu",
        ),
        (
            "grid ppo --hid[h] 32 64 --l 3 --exp_name x --act tanh nn.ReLU",
            "ppo --hidden[h] 32,32,32 64,64,64 --name x --activation tanh relu",
        ),
        (
            "plot d --xaxis Time --value Performance -s 5 -l a b",
            "d -x Time -y Performance --smooth 5 --legend a b",
        ),
        (
            "eval d --len 100 -n 5 --norender -d --itr -1",
            "d --max_len 100 --episodes 5 --deterministic --model last",
        ),
        ("eval d -l 0 -nr", "d"),
        ("video d -i last -n 2", "d --model last --episodes 2"),
        ("train ppo env=A gamma=0.98 --seed 3", "ppo --env=A --gamma=0.98 --seed 3"),
        ("train ppo gamma=0.9 --gamma 0.8", "ppo --gamma=0.9 --gamma 0.8"),
        ("train env=A ppo --seed 3", "ppo --seed 3 --env=A"),
        (
            "train algorithm.name=ppo env.id=A algorithm.params.gamma=0.9",
            "ppo --env=A --gamma=0.9",
        ),
        ("train algorithm=sac environment=A", "sac --env=A"),
        ("train sac experiment.seed=3 experiment.name=x", "sac --seed=3 --exp_name=x"),
        (
            "train sac env.kwargs.frame_skip=2 env.kwargs.other=x",
            'sac --env_kwargs={"frame_skip": 2, "other": x}',
        ),
        ("train sac --out a=b --wandb gamma=0.9", "sac --out a=b --wandb --gamma=0.9"),
        ("grid ppo seed=0,1,2 --env A", "ppo --seed=0,1,2 --env A"),
        ("report runs a=b", "runs a=b"),
    ],
)
def test_words_are_translated(theirs, ours):
    assert translated(theirs) == ours


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("eval d --itr 40", "--model"),
        ("video d -i 40", "--model"),
        ("train ppo --env A --dt", "--exp_name"),
        ("train ppo --env A --l 2", "--hidden"),
        ("train ppo --env A --hid 64 --l x", "layers"),
        ("train ppo env.ids=A", "did you mean"),
        ("train ppo algorithm.gamma=1", "params"),
        ("ppo --env A", "jaxrl train ppo"),
        ("sac_pytorch --env A", "jaxrl train sac"),
        ("test_policy d", "jaxrl eval"),
        ("train ppo env=CartPole-v1 gama=0.9", "did you mean 'gamma'"),
    ],
)
def test_what_has_no_counterpart_is_answered(line, word, capsys, tmp_path):
    assert main(shlex.split(line)) == 2
    assert word in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (
            "train ppo --env CartPole-v1 --seed 0,1,2 --gamma 0.9",
            "jaxrl grid ppo --env CartPole-v1 --seed 0 1 2 --gamma 0.9",
        ),
        (
            "train ppo --env CartPole-v1,Acrobot-v1 --hidden 64,64 --exp_name x",
            "jaxrl grid ppo --env CartPole-v1 Acrobot-v1 --hidden 64,64 --name x",
        ),
        (
            "train sac env=Hopper-v4 lr=1e-3,1e-4 env_kwargs='{a: 1, b: 2}'",
            "jaxrl grid sac --env Hopper-v4 --lr 1e-3 1e-4 --env_kwargs '{a: 1, b: 2}'",
        ),
        (
            "train ppo,trpo --env A --gamma 0.9,0.8 seed=3",
            "jaxrl grid ppo trpo --env A --gamma 0.9 0.8 --seed 3",
        ),
        ("train --algo ppo,trpo --env A", "jaxrl grid ppo trpo --env A"),
        (
            "train ppo --env A --hidden [64,64],[32,32]",
            "jaxrl grid ppo --env A --hidden '[64,64]' '[32,32]'",
        ),
    ],
)
def test_a_list_where_one_value_is_expected_is_answered_with_a_grid(
    line, command, capsys, tmp_path
):
    assert main(shlex.split(line)) == 2
    assert command in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_list_in_a_file_is_answered_with_a_grid(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text("algo: ppo\nenv: CartPole-v1\nseed: [0, 1]\nhidden: [64, 64]\n")
    assert main(["train", "--config", str(file)]) == 2
    expected = "jaxrl grid ppo --env CartPole-v1 --seed 0 1 --hidden 64,64"
    assert expected in capsys.readouterr().err


def test_a_list_of_algorithms_in_a_file_is_answered_with_a_grid(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text("algorithm: {name: [ppo, trpo]}\nenv: CartPole-v1\n")
    assert main(["train", "--config", str(file)]) == 2
    assert "jaxrl grid ppo trpo --env CartPole-v1" in capsys.readouterr().err


def test_the_grid_that_an_answer_names_is_right(capsys):
    line = "train ppo --env CartPole-v1 --seed 0,1 --hidden [64,64],[32] --steps 4096"
    main(shlex.split(line))
    command = capsys.readouterr().err.strip().split("\n")[-1]
    assert main([*shlex.split(command)[1:], "--dry-run"]) == 0
    assert "4 variants" in capsys.readouterr().out


def test_values_with_commas_of_their_own_are_one():
    assert lists.listed("hidden", "64,64") == ["64,64"]
    assert lists.listed("hidden", "[64,64],[32]") == ["[64,64]", "[32]"]
    assert lists.listed("seed", "0,1") == ["0", "1"]
    assert lists.listed("seed", "0,") == ["0,"]
    assert lists.listed("exp_name", "a,b") == ["a,b"]
    assert lists.listed("env_kwargs", "{a: 1, b: 2}") == ["{a: 1, b: 2}"]
    assert lists.listed("nothing", "a,b") == ["a,b"]


@pytest.mark.parametrize(
    "line",
    [
        "grid --algo ppo trpo --env CartPole-v1 --seed 0 1 --dry-run",
        "grid ppo trpo --env CartPole-v1 --seed 0,1 --dry-run",
        "grid --algo=ppo,trpo env=CartPole-v1 seed=0,1 --dry-run",
        "grid ppo --algo trpo --env_name CartPole-v1 seed=0,1 --dry-run",
    ],
)
def test_several_algorithms_are_one_grid(line, capsys):
    assert main(shlex.split(line)) == 0
    printed = capsys.readouterr().out
    assert "4 variants" in printed
    assert "algppo_s0" in printed
    assert "algtrpo_s1" in printed


def test_settings_of_a_grid_are_those_of_all_its_algorithms(capsys):
    words = "grid ppo sac --env Pendulum-v1 --clip_ratio 0.1 --dry-run"
    assert main(shlex.split(words)) == 2
    assert "sac has no setting 'clip_ratio'" in capsys.readouterr().err


def test_a_file_and_algorithms_do_not_go_together(tmp_path, capsys):
    (tmp_path / "g.yaml").write_text("algo: ppo\nenv: CartPole-v1\n")
    assert main(["grid", "g.yaml", "ppo", "--dry-run"]) == 2
    assert main(["grid", "g.yaml", "--algo", "ppo", "--dry-run"]) == 2
    assert "one file" in capsys.readouterr().err


SECTIONS = {
    "experiment": {"name": "nested", "seed": 3, "out": "runs"},
    "env": {"id": COUNT, "kwargs": {"length": 4}},
    "algorithm": {"name": "ppo", "params": small("ppo", gamma=0.9)},
}


def test_sections_of_a_file_are_settings(tmp_path):
    file = tmp_path / "nested.yaml"
    file.write_text(yaml.safe_dump(SECTIONS))
    assert main(["train", "--config", str(file), "--epochs", "1"]) == 0
    record = reading.record(tmp_path / "runs/nested/nested_s3")
    assert record.setting("gamma") == 0.9
    assert record.config["env_kwargs"] == {"length": 4}
    assert len(table(record.path)) == 1


def test_python_takes_the_same_sections(tmp_path):
    result = jaxrl.train(SECTIONS, screen=False, epochs=1)
    assert result.directory.resolve() == tmp_path / "runs/nested/nested_s3"
    flat = {"algo": "ppo", "env": COUNT, "exp_name": "flat"} | small("ppo", epochs=1)
    assert jaxrl.train(flat, screen=False).directory.name == "flat_s0"


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"env": {"ids": "A"}}, "ids"),
        ({"algorithm": {"gamma": 0.9}}, "params"),
        ({"algorithm": {"params": 3}}, "must hold"),
        ({"seed": 1, "experiment": {"seed": 2}}, "seed twice"),
        ({"algo": "ppo", "algorithm": {"name": "sac"}}, "algo twice"),
    ],
)
def test_sections_that_are_wrong_are_refused(config, word):
    with pytest.raises(UserError, match=word):
        nested.flat(config, "the file")


def test_a_config_without_an_environment_is_refused():
    with pytest.raises(UserError, match="env"):
        jaxrl.train({"algo": "ppo"})
    with pytest.raises(UserError, match="algo"):
        jaxrl.train({"env": "CartPole-v1"})


def test_a_list_in_rerun_is_answered_with_a_command_each(tmp_path, capsys):
    words = {"out": str(tmp_path), "exp_name": "x"} | small("ppo", epochs=1)
    run = jaxrl.train("ppo", COUNT, screen=False, **words).directory
    assert main(["rerun", str(run), "--seed", "1,2"]) == 2
    assert f"jaxrl rerun {run} --seed 2" in capsys.readouterr().err


def test_a_list_in_python_is_answered_with_a_grid(tmp_path):
    with pytest.raises(UserError) as caught:
        jaxrl.train("ppo", "CartPole-v1", seed=[0, 1], hidden=[8, 8], exp_name="x")
    grid = "jaxrl.Grid('x').add('algo', 'ppo').add('env', 'CartPole-v1')"
    assert f"{grid}.add('seed', [0, 1]).add('hidden', [8, 8])" in str(caught.value)
    with pytest.raises(UserError, match="env takes one value"):
        jaxrl.train("ppo", ["CartPole-v1", "Acrobot-v1"])
    assert not list(tmp_path.iterdir())


def test_an_argument_wins_over_the_preset_of_a_dict():
    with pytest.raises(UserError, match="no preset 'nothing'"):
        jaxrl.train(
            {"algo": "ppo", "env": "CartPole-v1", "preset": "x"}, preset="nothing"
        )
