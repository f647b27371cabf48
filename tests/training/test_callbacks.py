"""Callbacks: what they are given, what they may return, and how they are resumed."""

import contextlib
import json
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from launching import ended, run_of, start
from small_runs import Killed, always, assert_same, at_step, kill, signalled, small
from small_runs import jaxrl_command as command

import jaxrl
from jaxrl.callbacks import StopAtReturn, StopWithoutImprovement
from jaxrl.runs import reading, status
from jaxrl.runs.checkpoint_writer import CheckpointWriter
from jaxrl.training.user_callbacks import CallbackFailed


def run(tmp_path, callbacks, algo="ppo", **changes):
    settings = {"out": str(tmp_path), "exp_name": "x"} | small(algo, **changes)
    env = "CartPole-v1" if algo == "ppo" else "Pendulum-v1"
    return jaxrl.train(algo, env, screen=False, callbacks=callbacks, **settings)


class Recorder:
    """Writes down what it is called with."""

    def __init__(self):
        self.calls = []

    def on_start(self, context):
        self.calls.append(("start", context))

    def on_epoch(self, context):
        self.calls.append(("epoch", context))
        return {"my/metric": 10 * context.epoch}

    def on_end(self, context):
        self.calls.append(("end", context))


class StopAt:
    """Stops after some epochs, counted over resumes."""

    def __init__(self, epochs):
        self.epochs, self.count, self.seen = epochs, 0, np.zeros((0, 2))

    def on_epoch(self, context):
        self.count += 1
        self.seen = np.vstack([self.seen, [[context.epoch, context.step]]])
        return jaxrl.STOP("enough") if self.count >= self.epochs else None

    def state(self):
        nested = {"array": 0, "deep": [1, (2.5, None, True)], "none": jnp.zeros(())}
        return {"count": np.int64(self.count), "seen": self.seen, "nested": nested}

    def restore(self, state):
        assert state["nested"] == {
            "array": 0,
            "deep": [1, [2.5, None, True]],
            "none": 0,
        }
        self.count, self.seen = state["count"], state["seen"]


class Raises:
    def __init__(self, method, error=ValueError("boom")):
        setattr(self, method, self.fail)
        self.error = error

    def fail(self, context):
        raise self.error


def test_callbacks_are_called_in_turn_with_what_they_need(tmp_path):
    recorder = Recorder()
    result = run(tmp_path, [recorder], epochs=3)
    assert [name for name, _ in recorder.calls] == ["start", *["epoch"] * 3, "end"]
    contexts = [context for _, context in recorder.calls]
    assert [context.step for context in contexts] == [0, 64, 128, 192, 192]
    assert contexts[0].row == {}
    for context, row in zip(contexts[1:4], result.history, strict=True):
        assert context.row == {k: x for k, x in row.items() if k != "my/metric"}
        assert context.mean_return == row["AverageEpRet"]
        assert context.directory == result.directory
        assert context.total_steps == 192
        assert context.settings["settings"]["steps_per_epoch"] == 64
    assert [row["my/metric"] for row in result.history] == [10, 20, 30]
    assert contexts[-1].state is result.state
    assert contexts[-1].reason == ""


def test_a_callback_finishes_the_run(tmp_path, capsys):
    recorder = Recorder()
    result = run(tmp_path, [StopAt(2), recorder], epochs=5)
    assert len(result.history) == 2
    assert "StopAt" in result.reason
    assert "enough" in repr(result)
    assert recorder.calls[-1][0] == "end"
    assert "enough" in recorder.calls[-1][1].reason
    known = status.read(result.directory / status.FILE)
    assert (known.state, known.exit_code, known.step) == ("finished", 0, 128)
    assert known.stopped_by == "StopAt"
    assert "enough" in known.reason
    assert reading.record(result.directory).state == "finished"
    model = json.loads((result.directory / "models/last/model.json").read_text())
    assert model["step"] == 128
    listed = json.loads(command("ls", "--json", tmp_path).stdout)
    assert [(x["state"], x["steps"]) for x in listed] == [("finished", 128)]


def test_metrics_of_the_last_epoch_are_kept_with_a_stop(tmp_path):
    class Both:
        def on_epoch(self, context):
            metrics = {"mine": context.step}
            return jaxrl.STOP("why", metrics) if context.epoch == 2 else metrics

    assert [row["mine"] for row in run(tmp_path, [Both()], epochs=4).history] == [
        64,
        128,
    ]


def test_the_function_on_epoch_may_stop_too(tmp_path):
    result = run(tmp_path, None, epochs=4, on_epoch=lambda state, step: jaxrl.STOP)
    assert len(result.history) == 1
    assert "on_epoch" in result.reason


def test_a_finished_run_is_continued_only_with_steps(tmp_path, capsys):
    result = run(tmp_path, [StopAt(2)], epochs=5)
    again = jaxrl.resume(result.directory, callbacks=[StopAt(2)])
    assert len(again.history) == 2
    assert "StopAt" in again.reason
    assert "steps" in capsys.readouterr().out
    known = status.read(result.directory / status.FILE)
    assert (known.state, known.stopped_by) == ("finished", "StopAt")
    longer = jaxrl.resume(result.directory, 320, screen=False, callbacks=[StopAt(4)])
    assert len(longer.history) == 4
    whole = jaxrl.resume(result.directory, 320, screen=False, callbacks=[])
    assert len(whole.history) == 5
    assert whole.reason == ""


@pytest.mark.parametrize("happens", [kill, signalled])
def test_resume_stops_at_the_same_epoch(tmp_path, monkeypatch, happens):
    monkeypatch.setattr(CheckpointWriter, "affordable", always)
    settings = {"epochs": 8, "stop_without_improvement": 2, "num_test_episodes": 0}
    whole = run(tmp_path / "a", [StopAt(7)], "vpg", **settings)
    for step in 96, 192:
        out = tmp_path / str(step)
        at_step(monkeypatch, step, happens)
        with contextlib.suppress(Killed):
            run(out, [StopAt(7)], "vpg", **settings)
        callback = StopAt(7)
        resumed = jaxrl.resume(run_of(out), screen=False, callbacks=[callback])
        assert_same(whole, resumed)
        assert resumed.reason == whole.reason
        assert callback.count == len(whole.history)
        steps = [[n + 1, 64 * (n + 1)] for n in range(callback.count)]
        np.testing.assert_array_equal(callback.seen, steps)


def test_other_callbacks_than_the_saved_ones_are_refused(tmp_path, monkeypatch):
    at_step(monkeypatch, 150, signalled)
    result = run(tmp_path, [Recorder(), StopAt(9)], epochs=4)
    before = (result.directory / status.FILE).read_text()
    for others in None, [StopAt(9)], [Recorder()], [StopAt(9), Recorder()]:
        with pytest.raises(ValueError, match="Recorder, StopAt"):
            jaxrl.resume(result.directory, screen=False, callbacks=others)
    refused = command("resume", result.directory)
    assert refused.returncode == 2
    assert "callbacks=" in refused.stderr
    assert (result.directory / status.FILE).read_text() == before
    more = [Recorder(), StopAt(9), Recorder()]
    done = jaxrl.resume(result.directory, screen=False, callbacks=more)
    assert len(done.history) == 4


@pytest.mark.parametrize(
    ("callbacks", "said"),
    [
        ([object()], "on_start, on_epoch, on_end"),
        ([Recorder(), 3], r"callbacks\[1\]"),
        ([Recorder], "class"),
        (Recorder(), "list"),
        ("abc", "list"),
    ],
)
def test_what_is_no_callback_is_refused_before_anything_is_removed(
    tmp_path, callbacks, said
):
    with pytest.raises(ValueError, match=said):
        run(tmp_path, callbacks)
    assert not any(tmp_path.iterdir())


def test_half_a_state_is_refused(tmp_path):
    class Half:
        def on_end(self, context): ...

        def state(self): ...

    with pytest.raises(ValueError, match="restore"):
        run(tmp_path, [Half()])


@pytest.mark.parametrize("method", ["on_start", "on_epoch", "on_end"])
def test_a_callback_that_raises_fails_the_run_with_its_name(
    tmp_path, monkeypatch, method
):
    monkeypatch.setattr(CheckpointWriter, "affordable", always)

    class Late(Raises):
        def fail(self, context):
            if method != "on_epoch" or context.epoch == 2:
                raise self.error

    with pytest.raises(CallbackFailed, match=f"Late.{method}.*boom") as caught:
        run(tmp_path, [Late(method)], epochs=3)
    assert isinstance(caught.value.__cause__, ValueError)
    path = run_of(tmp_path)
    known = status.read(path / status.FILE)
    assert (known.state, known.exit_code) == ("failed", 1)
    assert f"Late.{method}" in known.reason
    whole = run(tmp_path / "whole", [], epochs=3)
    assert_same(whole, jaxrl.resume(path, screen=False))


def test_an_error_that_names_a_users_mistake_is_a_failure_too(tmp_path):
    error = jaxrl.errors.UserError("bad")
    with pytest.raises(CallbackFailed, match="bad"):
        run(tmp_path, [Raises("on_epoch", error)])
    assert reading.record(run_of(tmp_path)).state == "failed"


def test_a_state_that_cannot_be_saved_is_named(tmp_path):
    class Odd(StopAt):
        def state(self):
            return {"a": object()}

    with pytest.raises(CallbackFailed, match=r"Odd.state.*cannot be saved"):
        run(tmp_path, [Odd(9)])


def test_wrong_metrics_name_the_callback(tmp_path):
    class Wrong:
        def on_epoch(self, context):
            return 3

    with pytest.raises(CallbackFailed, match=r"Wrong.on_epoch.*got 3"):
        run(tmp_path, [Wrong()])


# Built in


def test_stop_at_a_return_of_training_or_test_episodes(tmp_path):
    first = run(tmp_path / "a", None, epochs=3, stop_return=1.0)
    assert len(first.history) == 1
    assert "stop_return" in first.reason
    settings = {"epochs": 3, "num_test_episodes": 1, "max_ep_len": 9}
    # Test episodes end after 9 steps; the training's mean may not be above it.
    second = run(tmp_path / "b", None, stop_return=9.5, **settings)
    assert len(second.history) == 3
    third = run(tmp_path / "c", [StopAtReturn(-np.inf)], **settings)
    assert len(third.history) == 1


def test_stop_without_improvement_counts_epochs(tmp_path):
    settings = {"epochs": 9, "num_test_episodes": 1, "max_ep_len": 5}
    # Every test episode of the cart pole returns 5: no epoch improves on the first.
    one = run(tmp_path / "a", None, stop_without_improvement=3, **settings)
    two = run(tmp_path / "b", [StopWithoutImprovement(3)], **settings)
    assert len(one.history) == len(two.history) == 4
    assert "stop_without_improvement" in one.reason
    assert "StopWithoutImprovement" in two.reason


def test_epochs_without_improvement_are_counted_over_a_kill(tmp_path, monkeypatch):
    monkeypatch.setattr(CheckpointWriter, "affordable", always)
    settings = {"epochs": 9, "num_test_episodes": 1, "max_ep_len": 5}
    at_step(monkeypatch, 202, kill)  # in the fourth epoch, after which it stops
    with pytest.raises(Killed):
        run(tmp_path, None, stop_without_improvement=3, **settings)
    assert len(jaxrl.resume(run_of(tmp_path), screen=False).history) == 4


def test_an_object_can_be_used_by_two_runs(tmp_path):
    callback = StopWithoutImprovement(2)
    settings = {"epochs": 9, "num_test_episodes": 1, "max_ep_len": 5}
    for name in "ab":
        assert len(run(tmp_path / name, [callback], **settings).history) == 3


def test_the_command_stops_and_continues_beyond_its_setting(tmp_path):
    words = ["train", "ppo", "--env", "CartPole-v1", "--out", tmp_path]
    words += ["--exp_name", "x", "--steps_per_epoch", 64, "--hidden", 8]
    done = command(*words, "--epochs", 4, "--stop_return", 1)
    assert done.returncode == 0, done.stderr
    assert "stop_return" in done.stdout
    path = run_of(tmp_path)
    again = command("resume", path)
    assert again.returncode == 0
    assert "--steps 256" in again.stdout
    assert reading.record(path).state == "finished"
    longer = command("resume", path, "--steps", 256)
    assert longer.returncode == 0, longer.stderr
    record = reading.record(path)
    assert (record.state, record.setting("stop_return")) == ("finished", np.inf)
    assert len(record.progress["Epoch"]) == 4


def test_a_run_killed_while_it_continues_after_a_stop_needs_no_steps(
    tmp_path, monkeypatch
):
    whole = run(tmp_path / "a", None, epochs=4)
    run(tmp_path / "b", None, epochs=4, stop_return=1.0)
    path = run_of(tmp_path / "b")
    at_step(monkeypatch, 100, kill)
    with pytest.raises(Killed):
        jaxrl.resume(path, 256, screen=False)
    assert reading.record(path).state in ("interrupted", "failed")
    assert_same(whole, jaxrl.resume(path, screen=False))


def test_a_grid_counts_a_stopped_run_as_finished(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["grid", "ppo", "--env", "CartPole-v1", "--steps_per_epoch", 64]
    words += ["--hidden", 8, "--epochs", 4, "--stop_return", 1, 1e9, "--name", "g"]
    for _ in range(2):
        done = command(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    attempts = [
        (x.state, x.attempt, len(reading.record(p.parent).progress["Epoch"]))
        for p in sorted((tmp_path / "runs/g").rglob(status.FILE))
        if (x := status.read(p))
    ]
    assert sorted(attempts) == [("finished", 1, 1), ("finished", 1, 4)]


@pytest.mark.mpi
def test_rank_0_decides_when_to_stop(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, jaxrl\n"
        "class Ask:\n"
        "    count = 0\n"
        "    def on_epoch(self, context):\n"
        "        self.count += 1\n"
        "        asks = context.epoch == (2 if context.rank == 0 else 1)\n"
        "        return jaxrl.STOP('asked') if asks else {'rank': context.rank}\n"
        "    def state(self): return {'count': self.count, 'rank': 0}\n"
        "    def restore(self, state): self.count = state['count']\n"
        "result = jaxrl.train('vpg', 'Pendulum-v1', out=sys.argv[1], exp_name='x',\n"
        "    steps_per_epoch=64, epochs=4, hidden='8', num_procs=2, screen=False,\n"
        "    callbacks=[Ask()])\n"
        "assert len(result.history) == 2 and 'asked' in result.reason, result\n"
    )
    code, _, err = ended(start([sys.executable, str(program), str(tmp_path / "o")], 2))
    assert code == 0, err
    assert reading.record(run_of(tmp_path / "o")).state == "finished"


def test_a_stop_that_would_be_ignored_fails_the_run(tmp_path):
    class StopsAtStart:
        def on_start(self, context):
            return jaxrl.STOP("now")

    with pytest.raises(CallbackFailed, match="only on_epoch"):
        run(tmp_path, [StopsAtStart()])
