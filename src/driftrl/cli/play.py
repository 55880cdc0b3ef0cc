"""``driftrl play``: the newest policy of a run drives once more, on film."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro

from driftrl.cli.options import print_json
from driftrl.errors import counted, require
from driftrl.video import headless, play


def main(
    directory: Annotated[Path, tyro.conf.Positional],
    *,
    theta: float | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Roll out the newest policy of a run and write a video of it.

    It acts without exploration, on the run's system as it was in the last episode.
    The run is not disturbed.

    Args:
        directory: Directory of a run, finished or under way.
        theta: Drive the system at this θ (default: that of the last episode).
        out: The mp4 to write (default: a name of its own in DIRECTORY/videos).
        json: Print one JSON document instead of sentences.
    """
    is_mp4 = out is None or out.suffix == ".mp4"
    require(is_mp4, f"--out must end in .mp4, received {out}.")
    headless(os.environ)
    played = play(directory, theta=theta, out=out)
    if json:
        video = None if played.video is None else str(played.video)
        document = asdict(played) | {"video": video}
        print_json({"return": document.pop("value"), **document})
        return
    at = "" if played.theta is None else f" at θ = {played.theta:.6g}"
    learned = counted(played.learned, "episode")
    print(f"The policy after {learned} has return {played.value:.2f}{at}.")
    print(played.unfilmed or f"The video is {played.video}")
