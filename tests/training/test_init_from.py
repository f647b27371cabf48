"""`--init_from`: parameters of another run, what fits, and how it is repeated."""

import shutil

import gymnasium as gym
import numpy as np
import own_envs
import pytest
import yaml
from fake_runs import read_runs
from launching import ended, run_of, start, train_words
from small_runs import Killed, assert_same, at_step, jaxrl_command, kill, small, table

import jaxrl
from jaxrl.runs import arrays, checkpoint, reading


def run(out, algo="ppo", env="Pendulum-v1", **changes):
    settings = {"out": str(out), "exp_name": "x"} | small(algo, **changes)
    return jaxrl.train(algo, env, screen=False, **settings)


class First:
    """Keeps the state before the first step."""

    def on_start(self, context):
        self.state = arrays.flatten(context.state)


def first_state(out, source, algo="ppo", **changes):
    first = First()
    result = run(out, algo, init_from=source, callbacks=[first], **changes)
    return first.state, result


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One run of each algorithm."""
    made = {}

    def get(algo):
        if algo not in made:
            extra = {"normalize_obs": True} if algo == "td3" else {}
            made[algo] = run(tmp_path_factory.mktemp(algo), algo, **extra)
        return made[algo]

    return get


def parts(state, text):
    found = {name: x for name, x in state.items() if text in name}
    assert found
    return found


def same(one, two):
    return all(np.array_equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("algo", ["ppo", "td3", "sac"])
def test_a_run_starts_with_all_networks_of_a_checkpoint(tmp_path, trained, algo):
    source = trained(algo)
    extra = {"normalize_obs": True} if algo == "td3" else {}
    end = arrays.flatten(source.state)
    state, result = first_state(tmp_path, source.directory, algo, seed=5, **extra)
    assert same(parts(state, ".params"), end)
    names = ["_norm"] if algo == "ppo" else ["_norm", ".target"][algo == "sac" :]
    for name in names:
        assert same(parts(state, name), end)
    assert not any(x.any() for x in parts(state, ".count").values())
    assert result.history[0]["TotalEnvInteracts"] < 100
    config = reading.record(result.directory).config
    assert config["init_from"] == str(source.directory)
    recorded = config["init_source"]
    assert recorded["step"] == source.history[-1]["TotalEnvInteracts"]
    assert str(source.directory.resolve()) in recorded["path"]
    assert len(recorded["sha256"]) == 64


def test_the_optimiser_is_taken_only_if_asked(tmp_path, trained):
    source = trained("ppo")
    end = arrays.flatten(source.state)
    state, _ = first_state(tmp_path, source.directory, init_optimizer=True)
    assert same(parts(state, ".opt_state"), end)
    assert not state[".updates"]


@pytest.mark.parametrize("algo", ["ppo", "td3", "sac"])
def test_a_model_gives_its_policy_and_normaliser(tmp_path, trained, algo):
    source = trained(algo)
    extra = {"normalize_obs": True} if algo == "td3" else {}
    end = arrays.flatten(source.state)
    place = source.directory / "models" / "last"
    state, _ = first_state(tmp_path, place, algo, seed=5, **extra)
    assert same(parts(state, ".actor.params"), end)
    assert not same(parts(state, ".critic.params"), end)
    if algo != "sac":
        assert state[".obs_norm.batches"] == end[".obs_norm.batches"]
        for name in ".obs_norm.mean", ".obs_norm.var":
            np.testing.assert_allclose(state[name], end[name], rtol=1e-5)
    if algo == "td3":
        for name, value in parts(state, ".target[0]").items():
            actor = state[name.replace(".target[0]", ".actor.params")]
            np.testing.assert_array_equal(value, actor)


def test_a_run_without_checkpoints_gives_its_last_model(tmp_path, trained, capsys):
    source = tmp_path / "copy"
    shutil.copytree(trained("ppo").directory, source)
    shutil.rmtree(source / "checkpoints")
    settings = {"out": str(tmp_path / "out")} | small("ppo")
    result = jaxrl.train("ppo", "Pendulum-v1", init_from=source, **settings)
    assert "policy only" in capsys.readouterr().out
    place = reading.record(result.directory).config["init_source"]["path"]
    assert place.endswith("models/last")
    with pytest.raises(ValueError, match="init_optimizer=True"):
        run(tmp_path / "no", init_from=source, init_optimizer=True)
    assert not (tmp_path / "no").exists()


def test_a_checkpoint_is_named_by_its_number(tmp_path, trained):
    source = trained("ppo").directory
    number = max(reading.saved_checkpoints(source))
    one, _ = first_state(tmp_path / "a", source)
    two, _ = first_state(tmp_path / "b", source / "checkpoints" / str(number))
    assert same(one, two)


def test_ppo_starts_from_trpo(tmp_path, trained):
    source = trained("trpo")
    state, _ = first_state(tmp_path, source.directory)
    assert same(parts(state, ".params"), arrays.flatten(source.state))


@pytest.mark.parametrize(
    ("algo", "changes", "said"),
    [
        ("ppo", {"hidden": "16"}, "hidden was"),
        ("ppo", {"activation": "relu"}, "activation was 'tanh'"),
        ("ppo", {"normalize_obs": False}, "obs_norm"),
        ("ppo", {"env": "CartPole-v1"}, "env was 'Pendulum-v1'"),
        ("ppo", {"env": "MountainCarContinuous-v0"}, "kernel"),
        ("sac", {}, "algo was 'ppo'"),
        ("vpg", {"init_optimizer": True}, "opt_state"),
    ],
)
@pytest.mark.parametrize("model", ["", "models/last"])
def test_what_does_not_fit_is_named_and_nothing_is_written(
    tmp_path, trained, algo, changes, said, model
):
    source = trained("ppo").directory / model
    with pytest.raises(ValueError, match="model" if model else said):
        run(tmp_path, algo, init_from=source, **changes)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("model", ["", "models/last"])
def test_action_spaces_of_the_same_size_are_told_apart(tmp_path, model):
    def with_actions(actions):
        env = own_envs.Mixed()
        env.action_space = actions
        return env

    five = gym.spaces.MultiDiscrete([2, 3])
    source = run(tmp_path / "source", env=with_actions(five)).directory / model
    for other in [
        gym.spaces.MultiDiscrete([3, 2]),
        gym.spaces.Discrete(5),
        gym.spaces.MultiBinary(5),
    ]:
        with pytest.raises(ValueError, match=r"categorical|MultiDiscrete"):
            run(tmp_path / "out", init_from=source, env=with_actions(other))
    assert not (tmp_path / "out").exists()
    shifted = gym.spaces.MultiDiscrete([2, 3], start=[4, 5])
    run(tmp_path / "out", init_from=source, env=with_actions(shifted))


def test_an_init_from_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for name in "missing", "empty", "file":
        words = ["train", "ppo", "--env", "CartPole-v1", "--out", tmp_path / "out"]
        done = jaxrl_command(*words, "--init_from", tmp_path / name)
        assert done.returncode == 2
        assert "init_from" in done.stderr
        assert "Traceback" not in done.stderr
    with pytest.raises(ValueError, match="init_from"):
        run(tmp_path / "out", init_optimizer=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["checkpoints", "models", "models/last"])
def test_parameters_outside_of_the_named_run_are_not_read(tmp_path, trained, place):
    outside = trained("ppo").directory
    run_of_a_stranger = tmp_path / "stranger_s0"
    shutil.copytree(outside, run_of_a_stranger)
    shutil.rmtree(run_of_a_stranger / "checkpoints")
    shutil.rmtree(run_of_a_stranger / "models")
    (run_of_a_stranger / place).parent.mkdir(exist_ok=True)
    (run_of_a_stranger / place).symlink_to(outside / place)
    with pytest.raises(ValueError, match="link"):
        run(tmp_path / "new", init_from=run_of_a_stranger)
    assert not (tmp_path / "new").exists()


def test_parameters_that_are_not_finite_are_refused(tmp_path, trained):
    source = tmp_path / "copy"
    shutil.copytree(trained("ppo").directory, source)
    saved, _ = checkpoint.newest(source)
    name = next(k for k in saved.content["state"] if k.startswith(".critic.params"))
    saved.content["state"][name] = saved.content["state"][name] * np.nan
    writer = checkpoint_writer(source, saved)
    writer.save(saved._replace(rows=None))
    writer.wait()
    with pytest.raises(ValueError, match="not finite"):
        run(tmp_path / "out", init_from=source)


def checkpoint_writer(path, saved):
    from jaxrl.runs.checkpoint_writer import CheckpointWriter

    return CheckpointWriter(path, 2, saved)


def test_resume_does_not_need_the_source_and_rerun_does(tmp_path, trained, monkeypatch):
    source = tmp_path / "source"
    shutil.copytree(trained("ppo").directory, source)
    whole = run(tmp_path / "a", init_from=source, epochs=3)
    at_step(monkeypatch, 150, kill)
    with pytest.raises(Killed):
        run(tmp_path / "b", init_from=source, epochs=3)
    again = jaxrl_command("rerun", whole.directory)
    assert again.returncode == 0, again.stderr
    (copy,) = (tmp_path / "a").glob("x-rerun/*_s0")
    assert table(copy) == table(whole.directory)
    aside = tmp_path / "aside"
    source.rename(aside)
    assert_same(whole, jaxrl.resume(run_of(tmp_path / "b"), screen=False))
    longer = jaxrl.resume(whole.directory, 256, screen=False)
    assert reading.record(longer.directory).config["init_source"]["step"] == 128
    gone = jaxrl_command("rerun", whole.directory, "--exp_name", "y")
    assert gone.returncode == 2
    assert str(source) in gone.stderr
    shutil.copytree(trained("trpo").directory, source)
    other = jaxrl_command("rerun", whole.directory, "--exp_name", "y")
    assert other.returncode == 2
    assert "other parameters" in other.stderr
    assert not (tmp_path / "a" / "y").exists()


@pytest.mark.parametrize("part", ["checkpoints/{}", "models/last"])
def test_a_link_out_of_a_run_is_not_followed(tmp_path, trained, part):
    elsewhere = trained("ppo").directory
    number = reading.saved_checkpoints(elsewhere)[-1]
    part = part.format(number)
    source = shutil.copytree(elsewhere, tmp_path / "source")
    shutil.rmtree(source / part)
    (source / part).symlink_to(elsewhere / part)
    with pytest.raises(ValueError, match="link"):
        run(tmp_path, init_from=source / part)
    assert not (tmp_path / "x").exists()
    own_link = tmp_path / "own_link"  # the user's, which may lead anywhere
    own_link.symlink_to(elsewhere / part)
    run(tmp_path, init_from=own_link)


def test_a_strangers_record_of_the_source_is_checked(tmp_path, trained):
    path = run(tmp_path, init_from=trained("ppo").directory).directory
    config = yaml.safe_load((path / "config.yaml").read_text())
    for odd in 3, [1], {"path": 3, "step": 1, "sha256": "x"}, {"path": "x"}:
        text = yaml.safe_dump(config | {"init_source": odd})
        (path / "config.yaml").write_text(text)
        done = jaxrl_command("rerun", path)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr


def test_a_grid_has_sources_as_an_axis(tmp_path, trained, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sources = [trained(algo).directory for algo in ("ppo", "trpo")]
    words = ["grid", "ppo", "--env", "Pendulum-v1", "--steps_per_epoch", 64]
    words += ["--epochs", 1, "--hidden", 8, "--name", "g", "--init_from", *sources]
    for _ in range(2):
        done = jaxrl_command(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    runs = read_runs("runs/g")
    assert {one.config["init_from"] for one in runs} == {*map(str, sources)}
    assert [one.status.attempt for one in runs] == [1, 1]


@pytest.mark.mpi
def test_all_ranks_start_with_the_same_parameters(tmp_path, trained):
    source = trained("ppo").directory
    words = train_words(tmp_path, "ppo", num_procs=2, init_from=source)
    code, _, err = ended(start([*words, "--steps", "48"]))
    assert code == 0, err
    assert reading.record(run_of(tmp_path)).config["init_source"]["sha256"]
    words = train_words(tmp_path / "b", "ppo", num_procs=2, init_from=tmp_path / "no")
    code, _, err = ended(start(words))
    assert code == 2
    assert "init_from" in err
