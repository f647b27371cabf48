"""Several runs in one program: each is what it would be alone."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from test_jax_training import ENVS, assert_same, each_algorithm, rows, small

import jaxrl
from jaxrl.cli.main import main
from jaxrl.envs.jax import Step
from jaxrl.errors import UserError
from jaxrl.runs import reading
from jaxrl.spaces import Discrete, EnvSpec
from jaxrl.training import jax_setup, packed
from jaxrl.training.jax_engine import Engine


@each_algorithm
def test_a_seed_among_others_is_bit_for_bit_the_seed_alone(algo, tmp_path):
    own = small(algo, epochs=3)
    together = jaxrl.train(
        algo, ENVS[algo], seeds=[4, 7, 5], out=str(tmp_path / "together"), **own
    )
    assert [run.directory.name[-2:] for run in together] == ["s4", "s7", "s5"]
    alone = jaxrl.train(algo, ENVS[algo], seed=7, out=str(tmp_path / "alone"), **own)
    assert_same(together[1], alone)
    assert rows(together[0]) != rows(together[1])


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_one_of_several_is_made_longer_alone_as_if_it_had_always_been(algo, tmp_path):
    own = small(algo) | {"epochs": 2}
    if algo == "ppo":
        own["lr_decay"] = 0.0  # over the whole run
    several = jaxrl.train(algo, ENVS[algo], seeds=2, out=str(tmp_path / "two"), **own)
    steps = 4 * own["steps_per_epoch"]
    longer = jaxrl.resume(several[1].directory, steps=steps, screen=False)
    whole = own | {"epochs": 4, "seed": 1}
    assert_same(longer, jaxrl.train(algo, ENVS[algo], out=str(tmp_path), **whole))


def test_several_runs_are_resumed_in_one_program(tmp_path, capsys):
    own = small("ppo", epochs=2)
    begun = jaxrl.train("ppo", ENVS["ppo"], seeds=2, out=str(tmp_path / "a"), **own)
    whole = jaxrl.train(
        "ppo", ENVS["ppo"], seeds=2, out=str(tmp_path / "b"), **own | {"steps": 512}
    )
    paths = [str(run.directory) for run in begun]
    assert main(["resume", *paths, "--steps", "512"]) == 0
    capsys.readouterr()
    for one, other in zip(begun, whole, strict=True):
        ours, theirs = (reading.record(x.directory) for x in (one, other))
        assert ours.state == theirs.state == "finished"
        assert len(ours.progress["Epoch"]) == 4
        assert list(ours.progress["AverageEpRet"][:2]) == list(
            theirs.progress["AverageEpRet"][:2]
        )


def test_the_command_trains_as_many_seeds_as_asked(tmp_path, capsys):
    words = "--num_envs 4 --steps_per_epoch 64 --epochs 2 --hidden 8 --minibatches 4"
    command = ["train", "ppo", "--env", ENVS["ppo"], *words.split()]
    command += ["--out", str(tmp_path), "--exp_name", "x", "--num_test_episodes", "0"]
    assert main([*command, "--seeds", "3", "--seed", "5"]) == 0
    printed = capsys.readouterr().out
    assert "3 runs" in printed
    assert {x.name for x in (tmp_path / "x").iterdir()} == {"x_s5", "x_s6", "x_s7"}
    assert main([*command, "--seeds", "5,9"]) == 2
    assert "x_s5" in capsys.readouterr().err
    assert not (tmp_path / "x" / "x_s9").exists()


def train_command(out, *words):
    sizes = "--num_envs 4 --steps_per_epoch 64 --hidden 8 --minibatches 4"
    command = ["train", "ppo", "--env", ENVS["ppo"], *sizes.split()]
    command += ["--out", str(out), "--exp_name", "x", "--num_test_episodes", "0"]
    return main([*command, *words])


def test_one_seed_is_enough(tmp_path, capsys):
    assert train_command(tmp_path, "--epochs", "2", "--seeds", "1") == 0
    assert "1 run in one program" in capsys.readouterr().out
    assert reading.record(tmp_path / "x" / "x_s0").state == "finished"


@pytest.mark.parametrize("stop", [[], ["--stop_return", "25"]])
def test_an_epochs_line_is_the_mean_of_all_runs_that_have_it(stop, tmp_path, capsys):
    assert train_command(tmp_path, "--epochs", "4", "--seeds", "3", *stop) == 0
    printed = capsys.readouterr().out
    lines = re.findall(r"^epoch (\d+) .*EpRet (\S+)", printed, re.M)
    runs = [reading.record(x).progress for x in sorted((tmp_path / "x").iterdir())]
    returns = [dict(zip(x["Epoch"], x["AverageEpRet"], strict=True)) for x in runs]
    assert [int(epoch) for epoch, _ in lines] == sorted(set().union(*returns))
    for epoch, shown in lines:
        own = [run[int(epoch)] for run in returns if int(epoch) in run]
        assert float(shown) == pytest.approx(np.nanmean(own), abs=0.06)
    if not stop:
        assert "768/768" in printed


def test_runs_of_different_lengths_are_made_equally_long_together(tmp_path, capsys):
    own = small("ppo", epochs=2)
    begun = jaxrl.train("ppo", ENVS["ppo"], seeds=2, out=str(tmp_path), **own)
    jaxrl.resume(begun[1].directory, steps=384, screen=False)
    paths = [str(run.directory) for run in begun]
    assert main(["resume", *paths]) == 2
    assert "steps" in capsys.readouterr().err
    assert main(["resume", *paths, "--steps", "512"]) == 0
    assert [len(reading.record(x).progress["Epoch"]) for x in paths] == [4, 4]


@pytest.mark.parametrize("seeds", ["0", "-1", "x", "1,,2", "3,3", 2.5, [], [1, -2], ""])
def test_odd_seeds_are_refused(seeds, tmp_path):
    with pytest.raises(UserError, match="seeds"):
        jaxrl.train("ppo", ENVS["ppo"], seeds=seeds, out=str(tmp_path), **small("ppo"))
    assert not list(tmp_path.iterdir())


def test_seeds_of_another_environment_are_refused_with_what_to_type(tmp_path):
    with pytest.raises(UserError, match="jaxrl grid"):
        jaxrl.train("ppo", "CartPole-v1", seeds=2, out=str(tmp_path), **small("ppo"))


def test_runs_that_need_different_programs_are_refused_together(tmp_path, capsys):
    both = [
        jaxrl.train("ppo", ENVS["ppo"], out=str(tmp_path / x), **small("ppo", **own))
        for x, own in (("a", {}), ("b", {"hidden": (4,)}))
    ]
    assert main(["resume", *(str(run.directory) for run in both)]) == 2
    assert "hidden" in capsys.readouterr().err


def test_memory_counts_all_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(jax_setup, "_free_memory", lambda: 10_000.0)
    assert jaxrl.train("sac", ENVS["sac"], out=str(tmp_path), **small("sac", epochs=1))
    with pytest.raises(UserError, match=r"16 runs x replay_size"):
        jaxrl.train(
            "sac", ENVS["sac"], out=str(tmp_path / "b"), seeds=16, **small("sac")
        )


class Unlucky:
    """Its reward is not finite after an unlucky start, which few seeds have."""

    spec = EnvSpec(2, Discrete(2))

    def reset(self, key):
        x = jnp.array([0.0, key_is_unlucky(key)])
        return x, x

    def step(self, state, action, key):
        reward = jnp.where(state[1] > 0, jnp.nan, 1.0)
        return Step(state, state, reward, jnp.array(False), jnp.array(False))


def key_is_unlucky(key):
    import jax

    return (jax.random.uniform(key) < 0.2).astype(float)


def test_a_run_that_fails_does_not_stop_the_others(tmp_path):
    own = small("ppo", num_envs=1, steps_per_epoch=32, minibatches=1, epochs=2)
    with pytest.raises(RuntimeError, match="of 8 runs failed") as failure:
        jaxrl.train("ppo", Unlucky(), seeds=8, out=str(tmp_path), **own)
    records = [reading.record(x) for x in sorted(next(tmp_path.iterdir()).iterdir())]
    states = [record.state for record in records]
    assert {*states} == {"finished", "failed"}
    assert str(failure.value).startswith(f"{states.count('failed')} of 8")
    assert "the reward is not finite" in str(failure.value)
    finished = [x for x in records if x.state == "finished"]
    assert all(len(x.progress["Epoch"]) == 2 for x in finished)
    alone = jaxrl.train(
        "ppo",
        Unlucky(),
        seed=finished[0].config["seed"],
        out=str(tmp_path / "a"),
        **own,
    )
    whole = list(finished[0].progress["AverageEpRet"])
    assert [row["AverageEpRet"] for row in alone.history] == whole


def test_epochs_are_shown_after_some_runs_have_failed(tmp_path, capsys):
    own = small("ppo", num_envs=1, steps_per_epoch=32, minibatches=1, epochs=4)
    own["screen"] = True
    with pytest.raises(RuntimeError, match="of 8 runs failed"):
        jaxrl.train("ppo", Unlucky(), seeds=8, out=str(tmp_path), **own)
    printed = capsys.readouterr().out
    assert re.search(r"^epoch 4\b|Epoch +4\b", printed, re.M), printed


def test_runs_that_were_killed_before_they_were_open_can_be_resumed(
    tmp_path, monkeypatch
):
    def killed(member, stop):
        raise KeyboardInterrupt

    monkeypatch.setattr(packed.Member, "open", killed)
    with pytest.raises(KeyboardInterrupt):
        jaxrl.train("ppo", ENVS["ppo"], seeds=2, out=str(tmp_path), **small("ppo"))
    monkeypatch.undo()
    paths = sorted(map(str, next(tmp_path.iterdir()).iterdir()))
    assert main(["resume", *paths]) == 0
    assert {reading.record(path).state for path in paths} == {"finished"}


def test_side_by_side_gives_the_same_numbers_up_to_rounding(tmp_path, monkeypatch):
    own = small("vpg", epochs=2)
    alone = jaxrl.train("vpg", ENVS["vpg"], seed=1, out=str(tmp_path / "a"), **own)
    monkeypatch.setattr(Engine, "runs_side_by_side", lambda self: True)
    both = jaxrl.train("vpg", ENVS["vpg"], seeds=2, out=str(tmp_path / "b"), **own)
    first, second = alone.history, both[1].history
    for name in ("AverageEpRet", "LossPi", "AverageVVals"):
        assert [row[name] for row in second] == pytest.approx(
            [row[name] for row in first], rel=1e-3, abs=1e-5
        )
