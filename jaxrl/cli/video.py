"""`jaxrl video DIR [-o agent.mp4 ...]`."""

from jaxrl.cli import flags
from jaxrl.runs import reading
from jaxrl.show import agent, video


def main(arguments: list[str]) -> int:
    parser = flags.Parser(
        "video DIR [-o agent.mp4|agent.gif] [--episodes N] ...",
        "Records a video of a run's policy in its environment; needs no display.",
    )
    flags.add_agent(parser)
    flags.add_output(parser, "agent.mp4")
    add = parser.add_argument
    add("--episodes", type=flags.count, default=1, metavar="N", help="how many [1]")
    add("--max_len", type=flags.count, metavar="N", help="steps that end an episode")
    add("--seed", type=flags.seed, default=0, metavar="N", help="of the episodes [0]")
    given = parser.parse(arguments)
    run = reading.record(given.dir)
    drawing = video.render_kwargs(run.config["env"])
    policy, env = agent.load(run.path, given.checkpoint, given.max_len, **drawing)
    with flags.writing(given.output, video.SUFFIXES) as path:
        count = video.record_video(path, policy, env, given.episodes, given.seed)
    env.close()
    print(f"{given.output}: {run.name} in {count} frames")
    return 0
