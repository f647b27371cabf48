"""`jaxrl export DIR -o policy.npz`."""

from jaxrl.cli import flags
from jaxrl.runs import reading


def main(arguments: list[str]) -> int:
    parser = flags.Parser(
        "export DIR [-o policy.npz]",
        "Writes the policy of a run, with its normaliser and action bounds, as one "
        "file: jaxrl.policy.Policy.load reads it, and needs only NumPy.",
    )
    flags.add_agent(parser)
    flags.add_output(parser, "policy.npz")
    given = parser.parse(arguments)
    policy = reading.record(given.dir).policy(given.checkpoint)
    with flags.writing(given.output, (".npz",)) as path:
        policy.save(path)
    print(f"{given.output}: {policy.obs_size} observations in, {policy.action} out")
    return 0
