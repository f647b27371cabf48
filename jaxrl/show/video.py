"""Records an agent: gymnasium's pictures, with the return and the step drawn in."""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl import envs, files
from jaxrl.errors import UserError
from jaxrl.evaluation import Act, EpisodeStep, check_policy, play
from jaxrl.runs import reading, status
from jaxrl.show import agent
from jaxrl.show.mp4 import Mp4Writer
from jaxrl.show.writing import writing

SUFFIXES = (".mp4", ".gif")
MAX_STEPS = 1000  # of an episode in an environment that is given by its id
MAX_FPS = {".mp4": 60, ".gif": 25}  # pictures a second that players show

LIBRARIES = ("egl", "osmesa")  # OpenGL without a display, the faster one first
PROBE = "import mujoco; mujoco.GLContext(8, 8).make_current()"

# A small GIF with its own palette; Bayer dithering compresses better than the default.
PREVIEW_SECONDS = 20
PREVIEW_FILTER = "fps=10,scale=240:-2,split[a][b];[a]palettegen[c];"
PREVIEW_FILTER += "[b][c]paletteuse=dither=bayer:bayer_scale=5"


def render_kwargs(env_id: str) -> dict[str, Any]:
    """Arguments of the environment that make it draw without a display."""
    if not envs.is_mujoco(env_id):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        if sys.platform == "linux":  # for a user's own MuJoCo environment
            os.environ.setdefault("MUJOCO_GL", LIBRARIES[0])
        return {"render_mode": "rgb_array"}
    choose_opengl()
    # The camera that follows the body; ignored by models without one.
    return {"render_mode": "rgb_array", "camera_name": "track"}


def choose_opengl() -> None:
    """Sets MUJOCO_GL to what works without a display, unless the user has set it.

    Each is tried in a subprocess, because MuJoCo chooses once, when it is imported.
    """
    if sys.platform != "linux":
        return
    asked = os.environ.get("MUJOCO_GL")
    for library in (asked,) if asked else LIBRARIES:
        environment = os.environ | {"MUJOCO_GL": library}
        command = [sys.executable, "-c", PROBE]
        if not subprocess.run(command, env=environment, capture_output=True).returncode:
            os.environ["MUJOCO_GL"] = library
            return
    raise UserError(
        f"MuJoCo cannot draw without a display: {asked or 'neither EGL nor OSMesa'} "
        "does not work here; install libegl1 or libosmesa6 (apt install libegl1)"
    )


def frames(steps: Iterable[EpisodeStep], env: Any, every: int) -> Iterator[np.ndarray]:
    """A picture every `every` steps, and one of each episode's end."""
    for step in steps:
        if step.length % every == 0 or step.over:
            yield add_caption(_render(env), step)


def _render(env: Any) -> np.ndarray:
    try:
        picture = env.render()
    except Exception as error:  # from any drawing library
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"the environment cannot be drawn: {reason}") from None
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        raise UserError(
            "the environment cannot be drawn: it has no render_mode rgb_array; a "
            "your callable must take render_mode and pass it on"
        )
    return picture


def add_caption(picture: np.ndarray, step: EpisodeStep) -> np.ndarray:
    """The picture below a strip with the episode, the step and the return."""
    from PIL import Image, ImageDraw, ImageFont

    height, width = (side - side % 2 for side in picture.shape[:2])  # for H.264
    size = max(12, width // 30)
    strip = 2 * size
    image = Image.new("RGB", (width, height + strip), (24, 24, 24))
    image.paste(Image.fromarray(picture[:height, :width]), (0, strip))
    text = f"episode {step.episode}   step {step.length}"
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    draw.text((size, strip / 2), text, "white", font, anchor="lm")
    returned = f"return {step.returned:.1f}"
    draw.text((width - size, strip / 2), returned, "white", font, anchor="rm")
    return np.asarray(image)


def record_video(path: Path, act: Act, env: Any, episodes: int, seed: int) -> int:
    """Writes an .mp4 or .gif that plays in real time; returns its number of frames."""
    fps = env.metadata.get("render_fps", 30)
    every = math.ceil(fps / MAX_FPS[path.suffix])
    steps = play(act, env, episodes, seed)
    count = 0
    with _writer(path, fps / every) as writer:
        for picture in frames(steps, env, every):
            writer.append_data(picture)
            count += 1
    return count


def record(policy: Act, env: Any, path: Path, episodes: int, seed: int) -> None:
    """Records a policy in an environment, or in the one with this id."""
    check_policy(policy, seed)
    if type(episodes) is not int or episodes < 1:
        raise UserError(f"n_episodes is {episodes!r}, but must be a whole number >= 1")
    drawn, is_ours = _drawable(env)

    def act(obs: np.ndarray) -> Any:
        action = policy(obs)  # gymnasium takes no arrays of JAX
        return np.asarray(action) if hasattr(action, "__array__") else action

    try:
        with writing(path, SUFFIXES) as fresh:
            record_video(fresh, act, drawn, episodes, seed)
    finally:
        if is_ours:
            drawn.close()


def _drawable(env: Any) -> tuple[Any, bool]:
    """An environment that draws pictures, and whether it was made here."""
    if isinstance(env, str):
        env, _ = agent.environment(env, MAX_STEPS, {}, {})
        env.close()
    if not all(hasattr(env, name) for name in ("reset", "step", "render")):
        raise UserError(
            f"env is {env!r:.80}, but must be a gymnasium environment or its id"
        )
    mode = getattr(env, "render_mode", None)
    if mode == "rgb_array":
        return env, False
    modes = (getattr(env, "metadata", None) or {}).get("render_modes", [])
    spec = getattr(env, "spec", None)
    if "rgb_array" in modes and spec is not None:
        return _remade(spec), True
    known = f"its render modes are {', '.join(modes)}" if modes else "it has none"
    raise UserError(
        f"the environment cannot be drawn: it needs the render mode rgb_array; {known}"
    )


def _remade(spec: Any) -> Any:
    """An environment with this spec that draws pictures."""
    drawing = render_kwargs(spec.id)
    own = {name: x for name, x in drawing.items() if name not in spec.kwargs}
    try:
        return envs.remade(spec, own | {"render_mode": "rgb_array"})
    except ValueError as error:
        raise UserError(
            f"{error}; give one that was made with render_mode='rgb_array'"
        ) from None


def _writer(path: Path, fps: float) -> Any:
    if path.suffix == ".mp4":
        return Mp4Writer(path, fps)
    import imageio.v2 as imageio

    return imageio.get_writer(path, duration=1000 / fps, loop=0)


def record_run(
    path: Path,
    run: reading.Record,
    model: str | int,
    max_len: int | None = None,
    episodes: int = 1,
    seed: int = 0,
    code: agent.Code | None = None,
) -> int:
    """Writes a video of a run's policy; returns its number of frames."""
    drawing = render_kwargs(run.config["env"])
    policy, env = agent.load(run.path, model, max_len, code=code, **drawing)
    count = record_video(path, policy, env, episodes, seed)
    env.close()
    return count


def check_recording(env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    """Records one random step, so that a run which cannot be recorded fails at once."""
    env, _ = agent.environment(env_id, 1, env_kwargs, render_kwargs(env_id))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "check.mp4"
        record_video(path, lambda obs: env.action_space.sample(), env, 1, 0)
    env.close()


def preview(path: Path) -> bytes:
    """The first seconds of a video as a GIF, because TensorBoard shows no videos."""
    import imageio_ffmpeg

    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path)]
    command += ["-t", str(PREVIEW_SECONDS), "-vf", PREVIEW_FILTER, "-f", "gif", "-"]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise UserError(
            f"{path} cannot be read: {done.stderr.decode(errors='replace')}"
        )
    return done.stdout


def main(words: list[str]) -> int:
    """For a run that records videos in a subprocess; prints why it failed, as JSON."""
    try:
        match words:
            case ["check", env_id, env_kwargs]:
                check_recording(env_id, json.loads(env_kwargs))
            case ["record", run, step, path, *algo]:
                code = agent.Code(algo="".join(algo))
                with files.replacing(Path(path)) as fresh:
                    record_run(fresh, reading.record(run), int(step), code=code)
            case ["preview", path]:
                sys.stdout.buffer.write(preview(Path(path)))
    except Exception as error:  # from any drawing library
        print(json.dumps({"reason": status.describe(error)}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
