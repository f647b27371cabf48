"""Random search over functions."""

import math
import random
import re

import numpy as np
import pytest

import jaxrl
from jaxrl.errors import UserError
from jaxrl.sampling import choice, loguniform, randint, uniform

SPACE = {
    "lr": lambda: loguniform(1e-5, 1e-2),
    "batch_size": lambda: choice([32, 64]),
    "layers": lambda: randint(1, 3),
    "clip": lambda: uniform(0.1, 0.3),
    "own": random.random,
    "numpys": lambda: np.random.uniform(),
    "env": "CartPole-v1",
}


def search(evaluation_fn, n_trials=20, space=SPACE, **options):
    return jaxrl.random_search(space, n_trials, evaluation_fn, screen=False, **options)


def test_the_best_settings_are_returned_with_their_value():
    best = search(lambda params: -abs(math.log10(params["lr"]) + 3))
    assert best.value == max(trial.value for trial in best.trials)
    assert (
        best
        == best.params
        == best.trials[[t.value for t in best.trials].index(best.value)].params
    )
    assert len(best.trials) == 20
    for trial in best.trials:
        assert 1e-5 <= trial.params["lr"] <= 1e-2
        assert trial.params["batch_size"] in (32, 64)
        assert trial.params["layers"] in (1, 2, 3)
        assert 0.1 <= trial.params["clip"] <= 0.3
        assert trial.params["env"] == "CartPole-v1"
    assert len({trial.params["lr"] for trial in best.trials}) == 20
    assert {trial.params["layers"] for trial in best.trials} == {1, 2, 3}


def test_a_seed_repeats_all_draws_and_leaves_others_alone():
    def noisy(params):
        random.random(), np.random.uniform()  # must not change later draws
        return random.random()

    random.seed(1), np.random.seed(1)
    before = random.random(), np.random.uniform()
    random.seed(1), np.random.seed(1)
    first = search(lambda params: 0.0)
    assert (random.random(), np.random.uniform()) == before
    drawn = [trial.params for trial in first.trials]
    assert [trial.params for trial in search(noisy).trials] == drawn
    assert [trial.params for trial in search(noisy, 5).trials] == drawn[:5]
    assert [trial.params for trial in search(noisy, seed=1).trials] != drawn


def test_failing_trials_are_reported_and_do_not_end_the_search(capsys):
    def fails(params):
        if params["batch_size"] == 32:
            raise RuntimeError("out of memory")
        return math.nan if params["layers"] == 1 else params["lr"]

    best = jaxrl.random_search(SPACE, 20, fails)
    reasons = {trial.reason for trial in best.trials if trial.value is None}
    assert any("out of memory" in reason for reason in reasons)
    assert any(re.fullmatch("evaluation_fn .*NaN", reason) for reason in reasons)
    assert best["batch_size"] == 64
    printed = capsys.readouterr()
    assert "out of memory" in printed.out
    assert "Traceback" in printed.err


@pytest.mark.parametrize("result", [None, "high", True, math.nan, [1.0]])
def test_a_search_without_any_value_ends_in_a_sentence(result):
    with pytest.raises(UserError, match="3 trials failed"):
        search(lambda params: result, 3)


def test_numpys_numbers_and_arrays_of_one_count():
    assert search(lambda params: np.float32(2), 1).value == 2.0
    assert search(lambda params: np.array(3), 1).value == 3.0
    assert search(lambda params: -math.inf, 1).value == -math.inf


def test_what_train_returns_counts_by_its_last_epochs(tmp_path):
    def evaluate(params):
        return jaxrl.train(
            "ppo",
            "own_envs:Count-v0",
            out=str(tmp_path),
            steps_per_epoch=64,
            epochs=2,
            hidden=(8,),
            screen=False,
            overwrite=True,
            **params,
        )

    best = search(evaluate, 1, {"gamma": lambda: uniform(0.9, 0.99)})
    result = evaluate(best)
    returns = [row["AverageEpRet"] for row in result.history]
    assert best.value == pytest.approx(np.mean(returns))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (({}, 1, len), "param_space"),
        (([1], 1, len), "param_space"),
        (({1: 2}, 1, len), "name"),
        (({"a": 1}, 0, len), "n_trials"),
        (({"a": 1}, 2.5, len), "n_trials"),
        (({"a": 1}, 1, 3), "evaluation_fn"),
        (({"a": 1}, 1, len, "x"), "seed"),
        (({"a": lambda: loguniform(0, 1)}, 1, len), "a can be drawn.* above 0"),
        (({"a": lambda: uniform(2, 1)}, 1, len), "smaller one first"),
        (({"a": lambda: choice([])}, 1, len), "at least one"),
        (({"a": lambda: randint(0.5, 2)}, 1, len), "whole"),
        (({"a": lambda: 1 / 0}, 1, len), "ZeroDivision"),
    ],
)
def test_bad_input_is_refused_before_the_first_call(arguments, word):
    with pytest.raises(UserError, match=word):
        jaxrl.random_search(*arguments)
