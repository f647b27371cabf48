"""A search: what may be searched, and that it finds the better settings."""

import dataclasses
import importlib.util
import itertools
import re
import signal
import textwrap

import numpy as np
import pytest
from fake_runs import log, write_run

import jaxrl
from jaxrl.cli.main import main
from jaxrl.errors import UserError
from jaxrl.experiments import runner
from jaxrl.experiments.runner import Options, Summary
from jaxrl.experiments.search import Search, SearchResult, run
from jaxrl.experiments.search_file import SAMPLERS, SearchRange, SearchSpec, read
from jaxrl.runs import reading
from jaxrl.runs.overview import overviews
from jaxrl.runs.status import Attempt

optuna = pytest.importorskip("optuna")
FILE = """
    algo: ppo
    env: CartPole-v1
    steps: 128
    steps_per_epoch: 64
    minibatches: 1
    trials: 3
    sampler: random
    pruner: none
    space:
      pi_lr: {log_uniform: [1e-5, 1e-2]}
      gamma: {uniform: [0.9, 0.999]}
      train_pi_iters: {int: [1, 4]}
      hidden: {choice: [[8], [8, 8]]}
"""


def written(tmp_path, text):
    file = tmp_path / "find.yaml"
    file.write_text(textwrap.dedent(text))
    return str(file)


def test_every_trial_lies_in_the_space(tmp_path):
    spec = read(written(tmp_path, FILE))
    trial = optuna.create_study().ask()
    chosen = {key: range.suggest(trial, key) for key, range in spec.space.items()}
    run = spec.variant(7, chosen).run
    assert 1e-5 <= run.config.pi_lr <= 1e-2
    assert run.config.hidden in ((8,), (8, 8))
    assert run.exp_name == "find_t7"


BAD = """\
algo: ppo
env: CartPole-v1
trials: 0
sampler: tpee
space:
  gamma: {unform: [0, 1]}
  pi_lr: {uniform: [1, 0.5]}
  lam: {uniform: [0.5, 2]}
  hidden: 5
  gama: {uniform: [0, 1]}
slurm: {cpus: 2}
storage: trials.db
seed: [0, 1]
vf_lr:
  - 0.1
  - 0.2
  - 0.3
name: ..
exclude: {seed: 1}
tua: [1, 2]
pruneer: none
"""


def test_every_mistake_is_reported_with_its_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["search", written(tmp_path, BAD)]) == 2
    printed = capsys.readouterr().err
    for part in (
        r"line 3: trials .*\b0\b",
        r"line 4: .*'tpee'.*'tpe'",
        r"line 6: gamma .*uniform: \[0, 1\].*'uniform'",
        r"line 7: pi_lr .*lower.*higher",
        r"line 8: lam .*\b2\b.*\[0, 1\]",
        r"line 9: hidden .*range",
        r"line 10: .*'gama'.*'gamma'",
        r"line 11: .*slurm",
        r"line 12: storage .*sqlite:///",
        r"line 13: .*one value.*seed",
        r"line 14: .*vf_lr: {choice: \[0.1, 0.2, \.\.\]}.*space",
        r"line 18: .*name.*'\.\.'",
        r"line 19: .*exclude.*grid",
        r"line 21: .*'pruneer'.*'pruner'",
    ):
        assert re.search(part, printed)
    assert printed.count("'tua'") == 1
    assert printed.count("line ") == printed.count("\n") - 1  # all but the head
    assert printed.startswith("jaxrl: ")
    assert [path.name for path in tmp_path.iterdir()] == ["find.yaml"]


def test_a_grid_of_infinite_ranges_and_an_absent_package_are_reported_with_their_lines(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["search", written(tmp_path, FILE.replace("random", "grid"))]) == 2
    printed = capsys.readouterr().err
    assert re.search("line 11: pi_lr.* finite", printed)
    assert "hidden" not in printed
    assert main(["search", written(tmp_path, FILE.replace("random", "gp"))]) == 2
    assert re.search("line 8: .*gp.*pip install torch", capsys.readouterr().err)


def test_a_search_ends_with_the_best_and_a_command_and_can_go_on(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0")
    file = written(tmp_path, FILE)
    assert main(["search", file, "--jobs", "2"]) == 0
    printed = capsys.readouterr().out
    assert "3 of 3 finished" in printed
    assert "jaxrl train ppo --env CartPole-v1 --steps 128" in printed
    study = optuna.load_study(
        study_name="find", storage="sqlite:///runs/find/trials.db"
    )
    assert f" {study.best_value:.1f} " in printed
    (best,) = overviews([f"runs/find/find_t{study.best_trial.number}"])
    assert best.last5 == pytest.approx(study.best_value)
    assert main(["search", file]) == 0
    assert "all 3 trials" in capsys.readouterr().out
    assert main(["search", file, "--trials", "4"]) == 0
    assert "1 of 1 finished" in capsys.readouterr().out
    assert len(list(tmp_path.glob("runs/find/find_t*/find_t*_s0/progress.csv"))) == 4
    other = FILE.replace("steps: 128", "steps: 64\n    lam: 0.9")
    other = written(tmp_path, other.replace("1, 4", "1, 5"))
    assert main(["search", other]) == 2
    printed = capsys.readouterr().err
    assert "runs/find " in printed
    assert re.search(r"\bsteps .*\b128\b.*\b64\b", printed)
    assert re.search(r"\blam .*not set.*0\.9", printed)
    assert re.search(r"train_pi_iters .*{int: \[1, 4\]}.*{int: \[1, 5\]}", printed)
    assert "another name" in printed


@pytest.mark.parametrize(
    ("storage", "part"),
    [
        ("nope://x", "nope://x "),
        ("sqlite:////nonexist/x.db", "unable to open"),
        ("mysql://me:secret@host/db", "mysql://host/db "),
        ("postgresql://me:p@w:secret@host/db", "postgresql://host/db "),
        ("postgresql://host:5x/db?password=secret", "postgresql://host:5x/db "),
    ],
)
def test_a_storage_that_cannot_be_used_is_refused_in_a_line_without_its_password(
    tmp_path, monkeypatch, capsys, storage, part
):
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, f"{FILE}    storage: {storage}\n")
    assert main(["search", file]) == 2
    printed = capsys.readouterr().err
    assert part in printed
    assert "secret" not in printed
    assert printed.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["find.yaml"]


def test_ctrl_c_before_a_trial_was_finished_asks_for_the_same_command(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    stopped = Summary([], {}, signal.SIGINT)
    monkeypatch.setattr(runner, "run", lambda *_: stopped)
    file = written(tmp_path, FILE)
    assert main(["search", file]) == 128 + signal.SIGINT
    assert re.fullmatch(".*same command.*\n", capsys.readouterr().out)
    found = run(read(file), Options(screen=False))
    assert (found.settings, found.command) == ({}, "")
    assert found.stopped_by is signal.SIGINT


RUN = {"settings": {"epochs": 1, "steps_per_epoch": 1}}


class Watched:
    """Stands for a running job that has logged these returns."""

    def __init__(self, variant, *returns):
        self.variant = variant
        self.state, self.reason = "running", ""
        if returns:
            name, root = variant.run.exp_name, variant.path.parents[1]
            write_run(root, name, 0, log(range(1, len(returns) + 1), returns))


@pytest.fixture
def spec(tmp_path):
    ranges = {"gamma": {"uniform": [0.5, 0.9]}, "lam": {"uniform": [0.5, 0.9]}}
    spec = SearchSpec(
        name="p",
        fixed={"algo": "ppo", "env": "CartPole-v1"},
        space={
            key: SearchRange.from_mapping(key, given) for key, given in ranges.items()
        },
        out=str(tmp_path),
        trials=8,
        sampler="random",
    )
    spec.root.mkdir()
    return spec


def finish(search, worth):
    variant = search.next()
    job = Watched(variant, 100.0, worth(variant.run.config))
    assert not search.should_stop(job)
    job.state = "finished"
    search.report(job)


def test_a_hopeless_trial_is_pruned_and_an_interrupted_one_continued(spec):
    search = Search(spec)
    for _ in range(6):
        finish(search, lambda config: 200.0)
    bad = Watched(search.next(), 1.0, 2.0)
    stop = search.should_stop(bad)
    bad.state, bad.reason = stop.state, stop.reason
    assert bad.state == "pruned"
    search.report(bad)
    record = reading.Record(bad.variant.path, RUN)
    assert record.state == "pruned"
    assert record.status.reason == stop.reason
    Attempt(bad.variant.path, record.status).start(0, 1)  # and killed
    assert record.state == "interrupted"
    assert record.status.attempt == 1
    cut = search.next()
    again = Search(spec)
    assert again.next() == cut  # as if the process had been killed
    assert again.next() is None
    assert again.result().value == 150.0


def test_a_trial_that_is_continued_reports_only_its_new_epochs(spec):
    cut = Watched(Search(spec).next())
    first = Search(spec)
    before = Watched(first.next(), 1.0, 2.0)
    assert before.variant == cut.variant
    first.should_stop(before)
    again = Search(spec)
    after = Watched(again.next(), 1.0, 2.0, 3.0)
    assert after.variant == cut.variant
    assert not again.should_stop(after)  # Optuna warns of an epoch reported twice


def test_a_storage_that_fails_during_a_search_is_named_in_a_sentence(
    tmp_path, monkeypatch, capsys
):
    def full(*_):
        cause = OSError("database or disk is full")
        raise optuna.exceptions.StorageInternalError("in the commit") from cause

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "run", full)
    assert main(["search", written(tmp_path, FILE)]) == 1
    printed = capsys.readouterr().err
    assert "trials.db" in printed
    assert "disk is full" in printed
    assert len(printed.splitlines()) == 1


def test_importance_names_the_setting_that_matters(spec):
    search = Search(dataclasses.replace(spec, trials=40, pruner="none"))
    for _ in range(40):
        finish(search, lambda config: 1000 * config.gamma)
    found = search.result()
    assert found.settings["gamma"] > 0.8
    assert found.importance["gamma"] > 2 * found.importance["lam"]


def test_a_grid_tries_every_combination_once_and_also_after_a_kill(spec):
    ranges = {"hidden": {"choice": [[8], [8, 8]]}, "train_pi_iters": {"int": [1, 3]}}
    space = {key: SearchRange.from_mapping(key, given) for key, given in ranges.items()}
    spec = dataclasses.replace(spec, space=space, sampler="grid", trials=None)
    assert spec.total_trials == 6
    assert dataclasses.replace(spec, trials=4).total_trials == 4
    search = Search(spec)
    tried = [search.next().run.config for _ in range(3)]
    again = Search(spec)  # which takes up the three that were cut
    tried += [again.next().run.config for _ in range(6)][3:]
    assert again.next() is None
    found = [(config.hidden, config.train_pi_iters) for config in tried]
    assert found == list(itertools.product([(8,), (8, 8)], [1, 2, 3]))


@pytest.mark.parametrize("sampler", ["tpe", "qmc", "cmaes", "gp"])
def test_a_sampler_learns_from_the_trials_or_says_what_it_needs(spec, sampler):
    spec = dataclasses.replace(spec, trials=16, pruner="none", sampler=sampler)
    package = SAMPLERS[sampler]
    if package and importlib.util.find_spec(package) is None:
        with pytest.raises(UserError, match=f"pip install {package}"):
            run(spec, Options())
        return
    search = Search(spec)
    for _ in range(16):
        finish(search, lambda config: 1000 * config.gamma)
    assert search.result().settings["gamma"] > 0.8
    assert search.next() is None


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"int": [1, 2, 3]}, "keep .*3.*int .*lowest"),
        ({"uniform": ["a", 3]}, "keep .*lower.*higher"),
        ({"log_uniform": [0, 3]}, "keep .*above 0"),
    ],
)
def test_a_range_is_refused_with_the_rule_it_broke(given, part):
    with pytest.raises(UserError, match=part):
        SearchRange.from_mapping("keep", given)


def test_no_space_is_reported_and_one_with_mistakes_is_not_taken_for_none(tmp_path):
    for text, part in (
        ("", "no space"),
        ("space: {}", "no space"),
        ("space: {keep: 5}", "find.yaml: line 3: keep .*range"),
    ):
        with pytest.raises(UserError, match=part):
            read(written(tmp_path, f"algo: ppo\nenv: CartPole-v1\n{text}"))


def test_what_is_fixed_is_not_searched_and_what_is_no_setting_neither(tmp_path):
    text = "algo: ppo\nenv: CartPole-v1\ngamma: 0.9\nspace:\n"
    text += "  gamma: {uniform: [0.8, 0.9]}\n  gama: {choice: [1]}\n"
    with pytest.raises(UserError) as refusal:
        read(written(tmp_path, text))
    assert re.search("line 5: gamma .*line 3", str(refusal.value))
    assert re.search("line 6: .*'gama'.*'gamma'", str(refusal.value))


def test_an_environment_can_be_chosen_too(tmp_path):
    text = FILE + "      env: {choice: [CartPole-v1, Acrobot-v1]}\n"
    spec = read(written(tmp_path, text))
    chosen = {key: range.values[0] for key, range in spec.space.items()}
    assert spec.variant(0, chosen | {"env": "Acrobot-v1"}).run.env == "Acrobot-v1"


def test_what_is_wrong_is_refused_from_python_too(spec):
    for changes, part in (
        ({"sampler": "tpee"}, "did you mean 'tpe'?"),
        ({"sampler": "grid"}, "gamma: "),
        ({"trials": -1}, "trials is -1"),
        ({"trials": 0}, "trials is 0"),
        ({"trials": 2.5}, "trials is 2.5"),
        ({"storage": "me:secret@host"}, "storage is no URL"),
    ):
        with pytest.raises(UserError, match=re.escape(part)):
            run(dataclasses.replace(spec, **changes), Options())
    assert not list(spec.root.iterdir())


def test_python_reports_all_mistakes_at_once(tmp_path):
    with pytest.raises(UserError) as raised:
        jaxrl.search(
            {"gama": {"uniform": [0, 1]}, "lam": {"choice": np.array([0.5, 2.0])}},
            trials=np.int64(3),
            algo="ppo",
            env="CartPol-v1",
            pi_lr=-1,
            out=str(tmp_path),
        )
    for part in ("'gamma'", "lam is 2.0", "CartPole-v1", "pi_lr is -1"):
        assert part in str(raised.value)
    assert "trials" not in str(raised.value)


def test_from_python(tmp_path):
    with pytest.raises(UserError, match="gama"):
        jaxrl.search(
            {"gama": {"uniform": [0, 1]}},
            algo="ppo",
            env="CartPole-v1",
            out=str(tmp_path),
        )
    with pytest.raises(UserError, match="trials is 0"):
        jaxrl.search(
            {"gamma": {"uniform": [0, 1]}},
            trials=0,
            algo="ppo",
            env="CartPole-v1",
            out=str(tmp_path),
        )
    assert not list(tmp_path.iterdir())
    found = SearchResult(
        {"algo": "sac", "env": "A", "hidden": (8, 8)}, 1.0, tmp_path, {}
    )
    assert found.command == "jaxrl train sac --env A --hidden 8,8"
    whole = {"algo": "sac", "env": "A", "env_kwargs": {"g": 9.0}}
    command = found._replace(settings=whole).command
    assert command == """jaxrl train sac --env A --env_kwargs '{"g": 9.0}'"""


def test_a_part_of_a_mapping_can_be_searched(spec):
    space = {
        "env_kwargs:g": SearchRange.from_mapping(
            "env_kwargs:g", {"uniform": [1.0, 9.0]}
        )
    }
    spec = dataclasses.replace(spec, space=space)
    spec.fixed["env_kwargs"] = {"render_mode": "human"}
    kwargs = Search(spec).next().run.env_kwargs
    assert 1 <= kwargs.pop("g") <= 9
    assert kwargs == spec.fixed["env_kwargs"]
