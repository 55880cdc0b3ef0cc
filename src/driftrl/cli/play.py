"""``driftrl play``: the newest policy of a run drives once more, on film."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from driftrl.cli.options import parse, print_json
from driftrl.errors import counted, require
from driftrl.video import headless


@dataclass(frozen=True)
class Arguments:
    """Which run, on which system, and where the video goes."""

    directory: Annotated[Path, tyro.conf.Positional]
    """Directory of a run, finished or under way."""
    episode: int | None = None
    """Drive the system of this episode of the schedule (default: the last one run)."""
    theta: float | None = None
    """Drive the system at this θ instead."""
    seed: int | None = None
    """Seed of the start and of a planner's draws (default: the run's)."""
    out: Path | None = None
    """The mp4 to write (default: a name of its own in DIRECTORY/videos)."""
    fps: float | None = None
    """Frames a second, a frame a decision (default: as fast as the machine moves)."""
    json: bool = False
    """Print one JSON document instead of sentences."""


def main(argv: list[str]) -> int:
    """Play a run and say how it went and where the video is."""
    summary = (
        "Roll out the newest policy of a run, without exploration, on its system as "
        "it was in the last episode; write a video and print the return. The run is "
        "not disturbed."
    )
    arguments = parse(Arguments, argv, "play", summary)
    require(
        arguments.out is None or arguments.out.suffix == ".mp4",
        f"--out must end in .mp4, received {arguments.out}.",
    )
    headless(os.environ)
    from driftrl.video import play

    options = {**vars(arguments)}
    as_json = options.pop("json")
    played = play(**options)
    if as_json:
        video = None if played.video is None else str(played.video)
        document = asdict(played) | {"video": video}
        print_json({"return": document.pop("value"), **document})
        return 0
    at = "" if played.theta is None else f" at θ = {played.theta:.6g}"
    learned = counted(played.learned, "episode")
    print(f"The policy after {learned} has return {played.value:.2f}{at}.")
    print(played.unfilmed or f"The video is {played.video}")
    return 0
