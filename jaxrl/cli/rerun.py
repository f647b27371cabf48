"""`jaxrl rerun DIR [--seed N] [--setting value ...]`."""

from jaxrl.cli import running
from jaxrl.cli.flags import first_of
from jaxrl.cli.train import flags_of
from jaxrl.errors import UserError
from jaxrl.runs import reading

HELP = """\
usage: jaxrl rerun DIR [--seed N] [--exp_name NAME] [--setting value ...]

Starts the run in DIR anew, from its config.yaml, in a directory of its own: beside it
with another seed, or else as the experiment NAME [<exp_name>-rerun].
"""


def main(arguments: list[str]) -> int:
    path, words = first_of(arguments)
    changes = flags_of(words)
    if "help" in changes:
        print(HELP, end="")
        return 0
    if not path:
        raise UserError("no run; name its directory, as in jaxrl rerun runs/x/x_s0")
    record = reading.record(path)
    threads = running.fix_threads(record)
    running.cache_compilations()
    from jaxrl.runs import directory
    from jaxrl.training import train

    if record.path.parent.name == record.config["exp_name"]:  # beside it
        changes.setdefault("out", str(record.path.parent.parent))
    text = directory.config_text(record.path)
    run = directory.read(text, **changes)
    if directory.run_path(run).resolve() == record.path.resolve():
        changes["exp_name"] = f"{run.exp_name}-rerun"
        run = directory.read(text, **changes)
    if ranks := running.ranks_to_start(run.num_procs):
        return running.launched(["rerun", *arguments], ranks, threads)
    return running.report(train.train(run))
