"""`jaxrl video DIR [-o agent.mp4 ...]`."""

from jaxrl.cli import options
from jaxrl.cli.flags import writing
from jaxrl.runs import reading
from jaxrl.show import agent, video


def main(arguments: list[str]) -> int:
    given = options.parser("video").parse(arguments)
    run = reading.record(given.dir)
    drawing = video.render_kwargs(run.config["env"])
    policy, env = agent.load(run.path, given.model, given.max_len, **drawing)
    with writing(given.output, video.SUFFIXES) as path:
        episodes = given.num_test_episodes
        count = video.record_video(path, policy, env, episodes, given.seed)
    env.close()
    print(f"{given.output}: {run.name} in {count} frames")
    return 0
