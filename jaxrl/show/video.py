"""Films an agent: gymnasium's pictures, with the return and the step drawn in."""

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
FASTEST = {".mp4": 60, ".gif": 25}  # pictures a second that players show

LIBRARIES = ("egl", "osmesa")  # OpenGL without a display, the quicker one first
PROBE = "import mujoco; mujoco.GLContext(8, 8).make_current()"

# A small GIF with colours of its own; without dithering it would be larger.
SECONDS = 20
SMALL = "fps=10,scale=240:-2,split[a][b];[a]palettegen[c];"
SMALL += "[b][c]paletteuse=dither=bayer:bayer_scale=5"


def drawing(env_id: str) -> dict[str, Any]:
    """The arguments with which the environment draws without a display."""
    if not envs.is_mujoco(env_id):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        if sys.platform == "linux":  # for a user's own environment in MuJoCo
            os.environ.setdefault("MUJOCO_GL", LIBRARIES[0])
        return {"render_mode": "rgb_array"}
    choose_opengl()
    # The camera that follows the body; where a model has none, it changes nothing.
    return {"render_mode": "rgb_array", "camera_name": "track"}


def choose_opengl() -> None:
    """Sets MUJOCO_GL to what works without a display, unless the user has set it.

    Tried in processes of their own, because MuJoCo chooses once, when it is imported.
    """
    if sys.platform != "linux":
        return
    asked = os.environ.get("MUJOCO_GL")
    for library in (asked,) if asked else LIBRARIES:
        environment = os.environ | {"MUJOCO_GL": library}
        trial = [sys.executable, "-c", PROBE]
        if not subprocess.run(trial, env=environment, capture_output=True).returncode:
            os.environ["MUJOCO_GL"] = library
            return
    raise UserError(
        f"MuJoCo cannot draw without a display: {asked or 'neither EGL nor OSMesa'} "
        "does not work here; install libegl1 or libosmesa6 (apt install libegl1)"
    )


def frames(
    moments: Iterable[EpisodeStep], env: Any, every: int
) -> Iterator[np.ndarray]:
    """A picture of every so many steps, and of each episode's end."""
    for moment in moments:
        if moment.length % every == 0 or moment.over:
            yield labelled(_drawn(env), moment)


def _drawn(env: Any) -> np.ndarray:
    try:
        picture = env.render()
    except Exception as error:  # of whatever library draws
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"the environment cannot be drawn: {reason}") from None
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        raise UserError(
            "the environment cannot be drawn: it has no render_mode rgb_array"
        )
    return picture


def labelled(picture: np.ndarray, moment: EpisodeStep) -> np.ndarray:
    """The picture, with the state of its episode on a strip above it."""
    from PIL import Image, ImageDraw, ImageFont

    height, width = (side - side % 2 for side in picture.shape[:2])  # as H.264 needs
    size = max(12, width // 30)
    strip = 2 * size
    image = Image.new("RGB", (width, height + strip), (24, 24, 24))
    image.paste(Image.fromarray(picture[:height, :width]), (0, strip))
    text = f"episode {moment.episode}   step {moment.length}"
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    draw.text((size, strip / 2), text, "white", font, anchor="lm")
    returned = f"return {moment.returned:.1f}"
    draw.text((width - size, strip / 2), returned, "white", font, anchor="rm")
    return np.asarray(image)


def film(path: Path, act: Act, env: Any, episodes: int, seed: int) -> int:
    """Writes an .mp4 or a .gif that runs in real time; returns its pictures' number."""
    fps = env.metadata.get("render_fps", 30)
    every = math.ceil(fps / FASTEST[path.suffix])
    moments = play(act, env, episodes, seed)
    try:
        with _writer(path, fps / every) as writer:
            count = 0
            for picture in frames(moments, env, every):
                writer.append_data(picture)
                count += 1
        return count
    except ImportError as error:
        raise UserError(
            f"filming needs {error.name}; install it with pip install 'jaxrl[video]'"
        ) from None


def _writer(path: Path, fps: float) -> Any:
    import imageio.v2 as imageio
    import imageio_ffmpeg  # noqa: F401  so that its absence is told in a word

    if path.suffix == ".gif":
        return imageio.get_writer(path, duration=1000 / fps, loop=0)
    return imageio.get_writer(path, fps=fps, codec="libx264", macro_block_size=2)


def rehearse(env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    """Films one step, taken at random: refuses now what would be refused later."""
    env = agent.environment(env_id, 1, drawing(env_id) | dict(env_kwargs))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "rehearsal.mp4"
        film(path, lambda obs: env.action_space.sample(), env, 1, 0)
    env.close()


def preview(path: Path) -> bytes:
    """The first seconds of a film as a GIF, for TensorBoard, which shows no films."""
    import imageio_ffmpeg

    words = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path)]
    words += ["-t", str(SECONDS), "-vf", SMALL, "-f", "gif", "-"]
    done = subprocess.run(words, capture_output=True)
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
                rehearse(env_id, json.loads(env_kwargs))
            case ["preview", path]:
                sys.stdout.buffer.write(preview(Path(path)))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
