"""`jaxrl rerun DIR [--seed N] [--setting value ...]`."""

from jaxrl.cli import lists, running, setting_flags, stdout
from jaxrl.processes import mpirun, ranks
from jaxrl.runs import reading


def main(arguments: list[str]) -> int:
    parser = setting_flags.rerun(arguments)
    changes = setting_flags.parsed(parser, arguments, ("verbose_ranks",))
    record = reading.record(changes.pop("dir"))
    lists.refuse_in_rerun(str(record.path), changes)
    running.announce_code(record)
    threads = running.fix_threads(record)
    running.cache_compilations()
    from jaxrl.runs import directory
    from jaxrl.training import train

    # Where it lies decides, and not what a file says that may come from elsewhere.
    beside = record.path.resolve().parent
    in_experiment = beside.name == record.config["exp_name"]
    changes.setdefault("out", str(beside.parent if in_experiment else beside))
    text = directory.config_text(record.path)
    run = directory.read(text, **changes)
    running.note_changed_code(record, run)
    if directory.run_path(run).resolve() == record.path.resolve():
        changes["exp_name"] = f"{run.exp_name}-rerun"
        run = directory.read(text, **changes)
    if count := mpirun.ranks_to_start(run.num_procs):
        path = directory.run_path(run)
        return running.launched(["rerun", *arguments], path, count, threads)
    for note in directory.notes_on_wandb(text, "wandb" in changes):
        if ranks.prints():
            stdout.say(f"note: {note}")
    return running.report(train.train(run), run.env, run.networks, run.wandb)
