"""Settings: pytrees, their checks, values from outside, and spaces of actions."""

import dataclasses
import math
import typing
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from support import algorithms

import jaxrl
from jaxrl import checks, settings
from jaxrl.runs import spec
from jaxrl.settings import (
    Count,
    Ensemble,
    Fraction,
    Limit,
    NonNegative,
    Positive,
    Size,
    Widths,
)
from jaxrl.settings.values import plain
from jaxrl.types import Box, Discrete


@settings.pytree
class Config:
    """One setting of every kind."""

    gamma: Fraction = 0.99
    lr: Positive = 1e-3
    coef: NonNegative = 0.0
    limit: Limit = math.inf
    steps: Size = 10
    warmup: Count = 0
    critics: Ensemble = 2
    fast: bool = True
    mode: Literal["tanh", "relu"] = "tanh"
    hidden: Widths = (4, 4)


REAL = ("gamma", "lr", "coef", "limit")
STATIC = {
    "steps": 11,
    "warmup": 1,
    "critics": 3,
    "fast": False,
    "mode": "relu",
    "hidden": (4,),
}


def checked(**changes) -> Config:
    return checks.config(Config(**changes), Config)


def test_the_real_settings_are_the_leaves():
    assert jax.tree.leaves(Config()) == [0.99, 1e-3, 0.0, math.inf]


@pytest.mark.parametrize("name", REAL)
def test_a_changed_real_setting_keeps_the_structure(name):
    other = Config(**{name: 0.5})
    assert jax.tree.structure(other) == jax.tree.structure(Config())
    assert jax.tree.leaves(other) != jax.tree.leaves(Config())


@pytest.mark.parametrize(("name", "value"), STATIC.items())
def test_a_changed_static_setting_changes_the_structure(name, value):
    other = Config(**{name: value})
    assert jax.tree.structure(other) != jax.tree.structure(Config())
    assert jax.tree.leaves(other) == jax.tree.leaves(Config())


def test_every_setting_is_either_real_or_static():
    names = [field.name for field in dataclasses.fields(Config)]
    assert sorted(names) == sorted((*REAL, *STATIC))


def test_a_changed_real_setting_does_not_recompile():
    double = jax.jit(lambda config: config.gamma * config.steps)
    for config in (checked(), checked(gamma=0.5), checked(gamma=1)):
        double(config)
    assert double._cache_size() == 1
    assert double(checked(gamma=0.5, steps=4)) == 2.0
    assert double._cache_size() == 2


def test_settings_are_frozen_and_given_by_name():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().gamma = 0.5
    with pytest.raises(TypeError, match="positional"):
        Config(0.5)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        # out of range, and at the bounds that are left out
        ("gamma", 1.01, "a number in [0, 1]"),
        ("gamma", -0.01, "a number in [0, 1]"),
        ("lr", 0.0, "a number in (0, inf)"),
        ("lr", math.inf, "a number in (0, inf)"),
        ("coef", -1e-6, "a number in [0, inf)"),
        ("coef", math.inf, "a number in [0, inf)"),
        ("limit", 0.0, "a number in (0, inf]"),
        ("steps", 0, "a whole number in [1, 1e+15]"),
        ("warmup", -1, "a whole number in [0, 1e+15]"),
        ("critics", 1, "a whole number in [2, 1e+15]"),
        # not a number at all
        ("gamma", math.nan, "a number in [0, 1]"),
        ("limit", math.nan, "a number in (0, inf]"),
        ("gamma", "0.9", "a number in [0, 1]"),
        ("gamma", None, "a number in [0, 1]"),
        ("gamma", True, "a number in [0, 1]"),
        ("gamma", np.True_, "a number in [0, 1]"),
        ("steps", True, "a whole number in [1, 1e+15]"),
        ("steps", 2.0, "a whole number in [1, 1e+15]"),
        ("steps", "2", "a whole number in [1, 1e+15]"),
        # neither one thing nor the other
        ("fast", 1, "true or false"),
        ("fast", "yes", "true or false"),
        ("mode", "tan", "one of 'tanh', 'relu'"),
        ("mode", None, "one of 'tanh', 'relu'"),
        ("hidden", 64, "a whole number in [1, 32768]"),
        ("hidden", "64", "a whole number in [1, 32768]"),
        ("hidden", (4, 0), "a whole number in [1, 32768]"),
        ("hidden", (-4, 4), "a whole number in [1, 32768]"),
        ("hidden", (4.0,), "a whole number in [1, 32768]"),
        ("hidden", (4, None), "a whole number in [1, 32768]"),
        ("hidden", (True,), "a whole number in [1, 32768]"),
    ],
)
def test_a_refusal_names_the_setting_its_value_the_rule_and_the_default(
    name, value, rule
):
    with pytest.raises(ValueError) as refusal:
        checked(**{name: value})
    sentence = str(refusal.value)
    for part in (f"{name} is {value!r}", rule, repr(getattr(Config, name))):
        assert part in sentence


def test_all_faults_are_reported_at_once():
    with pytest.raises(ValueError) as refusal:
        checked(gamma=2.0, steps=0, mode="sine", lr=0.1)
    for part in ("gamma is 2.0", "steps is 0", "mode is 'sine'"):
        assert part in str(refusal.value)
    assert "lr is" not in str(refusal.value)


def test_one_bad_value_among_several_is_refused():
    with pytest.raises(ValueError, match="gamma is"):
        checked(gamma=jnp.array([0.5, 1.5]))


@pytest.mark.parametrize("config", [{"gamma": 0.5}, None, Config])
def test_settings_of_another_class_are_refused(config):
    with pytest.raises(TypeError, match=r"test_settings\.Config"):
        checks.config(config, Config)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gamma", 0.0),
        ("gamma", 1.0),
        ("gamma", 0.25),
        ("gamma", np.float32(0.25)),
        ("gamma", np.float64(0.25)),
        ("gamma", np.array(0.25)),
        ("gamma", jnp.array(0.25)),
        ("coef", 0.0),
        ("limit", math.inf),
        ("limit", 1e-9),
    ],
)
def test_a_real_setting_within_its_range_passes(name, value):
    got = getattr(checked(**{name: value}), name)
    np.testing.assert_allclose(got, value, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [*STATIC.items(), ("steps", 1), ("steps", np.int64(7)), ("warmup", 0)],
)
def test_a_static_setting_within_its_range_passes_as_it_is(name, value):
    assert getattr(checked(**{name: value}), name) == value


def test_a_list_is_taken_for_a_tuple():
    got = checked(hidden=[8, 8])
    assert got.hidden == (8, 8)
    assert jax.tree.structure(got) == jax.tree.structure(checked(hidden=(8, 8)))


@pytest.mark.parametrize("value", [1, 1.0, np.int32(1), np.float64(1), jnp.array(1)])
def test_leaves_become_strong_floats(value):
    got = checked(gamma=value)
    for leaf in jax.tree.leaves(got):
        assert leaf.dtype == jnp.float32
        assert leaf.shape == ()
        assert not leaf.weak_type
    assert got.gamma == 1.0


def test_leaves_are_arrays_of_their_own():
    given = jnp.array(0.5, float)  # strong already, so that only a copy is due
    first, second = checked(gamma=given), checked(gamma=given)
    given.delete()  # as a donated state would
    second.gamma.delete()
    np.testing.assert_array_equal(first.gamma, 0.5)


def test_settings_under_a_trace_pass():
    def discount(gamma: jax.Array) -> jax.Array:
        return 2 * checked(gamma=gamma).gamma

    # 7 is out of range, but has no value yet where it is checked.
    got = jax.vmap(discount)(jnp.array([0.25, 0.5, 7.0]))
    np.testing.assert_array_equal(got, [0.5, 1.0, 14.0])
    assert jax.jit(discount)(1).dtype == jnp.float32


def test_a_trace_hides_no_other_fault():
    with pytest.raises(ValueError, match="steps is 0"):
        jax.vmap(lambda gamma: checked(gamma=gamma, steps=0).gamma)(jnp.ones(2))


# Values from outside


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (np.array(2), 2),
        (jnp.array(0.5), 0.5),
        (np.array([1, 2]), [1, 2]),
        ((np.int64(1), 2), (1, 2)),
        (range(2), [0, 1]),
        (Path("a/b"), "a/b"),
        ({np.str_("g"): [np.float64(1)]}, {"g": [1.0]}),
    ],
)
def test_values_become_plain_python(value, expected):
    got = plain(value)
    assert got == expected
    assert type(got) is type(expected)
    assert yaml.safe_load(yaml.safe_dump(got)) is not None


def test_a_run_is_made_from_values_of_numpy_and_jax():
    given = {"gamma": jnp.array(0.5), "minibatches": np.int64(4), "seed": np.uint8(3)}
    given |= {"hidden": np.array([8, 8]), "normalize_obs": np.bool_(False)}
    run = spec.make("ppo", "CartPole-v1", given | {"env_kwargs": {"a": np.ones(2)}})
    assert type(run.config.gamma) is float
    assert type(run.config.minibatches) is type(run.seed) is int
    assert run.config.hidden == (8, 8)
    assert run.config.normalize_obs is False
    assert run.env_kwargs == {"a": [1.0, 1.0]}


def test_a_trained_run_describes_values_of_numpy(tmp_path):
    sizes = {"steps": np.int64(64), "steps_per_epoch": np.int32(64)}
    sizes |= {"seed": np.int64(1), "minibatches": np.int64(2)}
    for _ in range(2):
        result = jaxrl.train(
            "ppo",
            "Pendulum-v1",
            gamma=np.float64(0.98),
            env_kwargs={"g": np.float64(9.0)},
            out=tmp_path,
            overwrite=True,
            screen=False,
            **sizes,
        )
    config = yaml.safe_load((result.directory / "config.yaml").read_text())
    assert config["settings"]["gamma"] == 0.98
    assert (config["seed"], config["env_kwargs"]) == (1, {"g": 9.0})


@pytest.mark.parametrize("value", [object(), {"a": object()}, [1], 5])
def test_what_no_file_can_hold_is_refused_as_an_argument_of_the_environment(value):
    with pytest.raises(ValueError, match="env_kwargs is"):
        spec.make("ppo", "CartPole-v1", {"env_kwargs": value})


# What a run can set


@algorithms
def test_settings_read_from_the_source_are_those_of_the_module(algo):
    known = spec.known_settings(algo.__name__.rpartition(".")[2])
    for owner, made in ("config", algo.Config()), ("data", algo.DATA):
        hints = typing.get_type_hints(type(made), include_extras=True)
        found = {name: x for name, x in known.items() if x.owner == owner}
        assert {name: x.hint for name, x in found.items()} == hints
        assert {name: x.default for name, x in found.items()} == vars(made)


@pytest.mark.parametrize(
    ("keep", "epochs", "expected"),
    [(20, 49, 20), (20, 20, 20), (20, 7, 7), (1, 9, 1), (3, 9, 3), (0, 9, 0)],
)
def test_so_many_models_are_kept_evenly_spread_and_the_last(keep, epochs, expected):
    given = {"keep_models": keep, "steps_per_epoch": 100, "steps": epochs * 100}
    run = spec.make("vpg", "CartPole-v1", given)
    kept = [epoch for epoch in range(1, epochs + 1) if run.keeps_model(epoch)]
    assert len(kept) == expected
    if kept:
        assert kept[-1] == epochs
        gaps = np.diff([0, *kept])
        assert max(gaps) - min(gaps) <= 1


@pytest.fixture(params=[np.asarray, jnp.asarray], ids=["numpy", "jax"])
def array(request):
    return lambda rows: request.param(rows, dtype="float32")


def test_an_action_is_scaled_to_the_bounds_of_each_dimension(array):
    box = Box((0.0, -3.0), (10.0, 1.0))
    action = array([[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0], [0.5, -0.5]])
    got = box.scale(action)
    # the middles are 5 and −1, the radii 5 and 2: 5 + 0.5·5 = 7.5, −1 − 0.5·2 = −2
    np.testing.assert_allclose(got, [[0, 1], [10, -3], [5, -1], [7.5, -2]], rtol=1e-6)
    assert isinstance(got, type(action))
    assert got.dtype == np.float32


def test_an_action_beyond_one_is_clipped(array):
    got = Box((0.0, -3.0), (10.0, 1.0)).scale(array([[-1.5, 7.0], [1e9, -1e9]]))
    np.testing.assert_array_equal(got, [[0.0, 1.0], [10.0, -3.0]])


@pytest.mark.parametrize("lead", [(), (4,), (5, 4)])
def test_actions_of_any_leading_shape_are_scaled(array, lead):
    got = Box((0.0, -3.0), (10.0, 1.0)).scale(array(np.ones((*lead, 2))))
    np.testing.assert_array_equal(got, np.broadcast_to([10.0, 1.0], (*lead, 2)))


def test_a_scaled_action_never_leaves_the_bounds(array):
    # 0.1 and 0.7 have no exact middle, and rounding must not step over them.
    box = Box((0.1,), (0.7,))
    low, high = np.asarray(box.scale(array([[-1.0], [1.0]])))[:, 0]
    assert np.float32(0.1) <= low < 0.10001
    assert 0.69999 < high <= np.float32(0.7)


def test_an_action_without_bounds_stays_as_it_is(array):
    box = Box((-math.inf, 0.0), (math.inf, 4.0))
    got = box.scale(array([[5.0, 0.5], [-700.0, 5.0]]))
    # the second dimension is bounded: 2 + 0.5·2 = 3, and 5 is clipped to 1, thus 4
    np.testing.assert_array_equal(got, [[5.0, 3.0], [-700.0, 4.0]])


def test_an_action_with_one_bound_is_cut_there(array):
    box = Box((0.0, -math.inf), (math.inf, 3.0))
    got = box.scale(array([[-5.0, -5.0], [5.0, 5.0]]))
    np.testing.assert_array_equal(got, [[0.0, -5.0], [5.0, 3.0]])


def test_actions_are_scaled_inside_a_jit():
    box = Box((0.0,), (10.0,))
    np.testing.assert_array_equal(jax.jit(box.scale)(jnp.ones((3, 1))), [[10.0]] * 3)


def test_a_box_takes_arrays_and_compares_by_value():
    box = Box(np.array([-1.0, 0.0], np.float32), np.array([1, 2]))
    assert box == Box((-1.0, 0.0), (1.0, 2.0))
    assert hash(box) == hash(Box((-1.0, 0.0), (1.0, 2.0)))
    assert box.size == 2


def test_a_box_is_bounded_if_all_its_bounds_are_finite():
    assert Box((-1.0, 0.0), (1.0, 2.0)).bounded
    assert not Box((-1.0, 0.0), (1.0, math.inf)).bounded
    assert not Box((-1.0, -math.inf), (1.0, 2.0)).bounded


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ((0.0, 0.0), (1.0,), "got 2 and 1"),
        ((1.0,), (0.0,), "below"),
        ((0.0, 1.0), (1.0, 1.0), "below"),
        ((math.nan,), (1.0,), "below"),
    ],
)
def test_invalid_box_bounds_are_rejected(low, high, message):
    with pytest.raises(ValueError, match=message):
        Box(low, high)


@pytest.mark.parametrize("make", [np.array, jnp.array], ids=["numpy", "jax"])
def test_discrete_actions_count_from_their_start(make):
    got = Discrete(3, start=-1).scale(make([0, 1, 2]))
    np.testing.assert_array_equal(got, [-1, 0, 1])
    np.testing.assert_array_equal(Discrete(3).scale(make([2])), [2])
    assert Discrete(3, start=5).size == 3


@pytest.mark.parametrize("name", [True, 1, None, 0.5])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(ValueError, match="has no setting"):
        spec.make("ppo", "CartPole-v1", {name: 1})
