"""Defaults of runs in JAX environments, which the environment decides."""

import dataclasses

import pytest

import jaxrl
from jaxrl.algos import NAMES, presets
from jaxrl.cli.main import main
from jaxrl.envs.jax import PROBES
from jaxrl.envs.making import JAX_FAMILIES
from jaxrl.experiments.variant import Variant
from jaxrl.runs import directory, spec
from jaxrl.training import fused

CARTPOLE = "phys2d/CartPole-v1"
each_algorithm = pytest.mark.parametrize("algo", NAMES)


def made(algo, env, preset=presets.AUTO, **given):
    return spec.make(algo, env, given, preset)


def test_every_family_of_jax_environments_has_a_preset():
    assert presets.FAMILIES.keys() == {*JAX_FAMILIES}
    assert {*presets.FAMILIES.values()} <= presets.PRESETS.keys()


@each_algorithm
def test_the_environment_decides_where_no_preset_is_named(algo):
    changed = presets.changes("jax", algo)
    run = made(algo, CARTPOLE)
    assert run.preset == "jax"
    assert (vars(run.data) | vars(run.config)).items() >= changed.items()
    assert run.data.num_envs > made(algo, CARTPOLE, "default").data.num_envs
    for env in ("CartPole-v1", "module:phys2d", "envpool/Hopper-v4", "phys2d"):
        assert made(algo, env) == made(algo, env, "default")
    assert made(algo, CARTPOLE, "spinup").preset == "spinup"


@each_algorithm
@pytest.mark.parametrize("preset", sorted({*presets.FAMILIES.values()}))
def test_the_program_takes_the_defaults(algo, preset):
    run = made(algo, CARTPOLE, preset)
    program = fused.make_program(run.module, PROBES["both"], run.data)
    assert program.rounds >= 1
    assert run.total_steps == run.data.epochs * program.rounds * (
        run.data.num_envs if hasattr(run.config, "lam") else run.data.update_every
    )


def test_what_is_given_wins_over_the_environments_preset():
    run = made("ppo", CARTPOLE, num_envs=2)
    assert run.data.num_envs == 2
    others = dataclasses.replace(run.data, num_envs=made("ppo", CARTPOLE).data.num_envs)
    assert others == made("ppo", CARTPOLE).data


def test_a_file_of_a_users_own_keeps_its_defaults(tmp_path):
    file = tmp_path / "mine.py"
    assert main(["new", str(file), "--from", "ppo"]) == 0
    assert made(str(file), CARTPOLE).data == made("ppo", CARTPOLE, "default").data


def test_a_grid_has_the_same_defaults():
    given = {"algo": "ppo", "env": CARTPOLE, "seed": 3}
    variant = Variant.from_settings(given, "x", "runs")
    assert variant.run == made("ppo", CARTPOLE, seed=3, exp_name="x")
    plain = Variant.from_settings(given | {"preset": "default"}, "x", "runs")
    assert plain.run == made("ppo", CARTPOLE, "default", seed=3, exp_name="x")


def test_config_yaml_gives_the_same_run_again():
    for preset in ("auto", "default", "spinup"):
        run = made("ppo", CARTPOLE, preset)
        text = directory.config_yaml(directory.description(run))
        assert directory.read(text) == run
        assert directory.with_total_steps(run, 4096).preset == run.preset
    run = made("ppo", CARTPOLE, "default")
    known = directory.settings(run)
    del known["settings"]["num_envs"]  # as if the setting had not existed yet
    assert directory.read(directory.config_yaml(known)).data.num_envs == 1


def test_a_preset_that_does_not_exist_is_not_taken_from_config_yaml():
    known = directory.settings(made("ppo", CARTPOLE))
    for wrong in ("nothing", ["jax"], {"a": 1}, None, 3):
        text = directory.config_yaml(known | {"preset": wrong})
        assert directory.read(text).preset == "default"


def test_a_run_says_which_defaults_it_took(tmp_path, capsys):
    words = ["train", "ppo", "--env", CARTPOLE, "--out", str(tmp_path), "--hidden", "8"]
    assert main([*words, "--epochs", "1", "--num_envs", "32"]) == 0
    (note,) = [x for x in capsys.readouterr().out.splitlines() if "--preset jax" in x]
    assert "minibatches" in note
    assert "num_envs" not in note  # it was given
    (path,) = tmp_path.glob("*/*/config.yaml")
    assert "\npreset: jax\n" in path.read_text()


def test_the_help_shows_the_defaults_of_the_environment(capsys):
    count = str(made("ppo", CARTPOLE).data.num_envs)
    for words, number in (([], "1"), (["--env", CARTPOLE], count)):
        assert main(["train", "ppo", *words, "--help"]) == 0
        (line,) = [x for x in capsys.readouterr().out.splitlines() if "--num_envs" in x]
        assert f"[{number}]" in line


class OwnEnv(type(PROBES["both"])):
    """A JAX environment of a user's own."""


def test_an_environment_of_a_users_own_takes_the_preset_by_name(tmp_path, capsys):
    small = {"epochs": 1, "steps_per_epoch": 256, "minibatches": 4, "hidden": (8,)}
    env, small = OwnEnv(*PROBES["both"]), small | {"out": str(tmp_path)}
    jaxrl.train("ppo", env, exp_name="plain", **small)
    assert "--preset jax" in capsys.readouterr().out
    result = jaxrl.train("ppo", env, exp_name="x", preset="jax", **small)
    assert "--preset jax" not in capsys.readouterr().out
    text = (result.directory / "config.yaml").read_text()
    assert "preset: jax" in text
