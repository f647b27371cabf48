"""Functions of a user for grids, found by this module's name."""

import json
import os
import time


def note(directory, **settings):
    (directory / "given.json").write_text(json.dumps(settings))


def fails_once(directory, seed, where):
    """The first attempt at seed 1 fails; it leaves a file behind."""
    mark = os.path.join(where, f"tried-{seed}")
    tried = os.path.exists(mark)
    open(mark, "w").close()
    (directory / "mine.txt").write_text("second" if tried else "first")
    if seed == 1 and not tried:
        raise ValueError("the data is missing")


def leaves(directory, how):
    if how == "exit":
        os._exit(0)
    raise SystemExit(0)


def waits(directory, seed=0):
    (directory / "pid").write_text(str(os.getpid()))
    time.sleep(600)


def trains(directory, seed):
    import jaxrl

    (directory / "pid").write_text(str(os.getpid()))
    jaxrl.train(
        "ppo",
        "own_envs:Count-v0",
        out=str(directory),
        seed=seed,
        steps=10_000_000,
        steps_per_epoch=64,
        hidden=(8,),
        screen=False,
    )


def takes_lr(directory, lr):
    pass


async def later(directory, lr):
    pass


def yields(directory, lr):
    yield lr


def logs(directory, seed, fails):
    """Logs two rows; a later failure is one of the call, not of the log."""
    import jaxrl

    with jaxrl.Logger(directory, config={"seed": seed}, screen=False) as log:
        for epoch in range(2):
            log.store(EpRet=[seed, seed + 1])
            log.dump(step=10 * (epoch + 1))
    if fails:
        raise ValueError("after the log")
