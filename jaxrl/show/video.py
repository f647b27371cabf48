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

from jaxrl import envs
from jaxrl.errors import UserError
from jaxrl.evaluation import Act, EpisodeStep, play
from jaxrl.show import agent

SUFFIXES = (".mp4", ".gif")
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
            "callable of your own must take render_mode and pass it on"
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


def _writer(path: Path, fps: float) -> Any:
    import imageio.v2 as imageio

    if path.suffix == ".gif":
        return imageio.get_writer(path, duration=1000 / fps, loop=0)
    return imageio.get_writer(path, fps=fps, codec="libx264", macro_block_size=2)


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
    """For a run that records videos, which leaves this to a process of its own."""
    try:
        match words:
            case ["check", env_id, env_kwargs]:
                check_recording(env_id, json.loads(env_kwargs))
            case ["preview", path]:
                sys.stdout.buffer.write(preview(Path(path)))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
