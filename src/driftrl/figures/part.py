"""One problem's part of a page: what is computed once and shown in many places."""

from collections.abc import Sequence
from dataclasses import dataclass

from driftrl.figures.panels import Panel, study_panels
from driftrl.figures.style import MethodStyle, method_styles
from driftrl.results.regret import StudyRegret
from driftrl.results.scores import Scores, scores_of


@dataclass(frozen=True)
class Picture:
    """A printed figure that is part of the page."""

    title: str
    caption: str
    png: bytes


@dataclass(frozen=True)
class Part:
    """One problem's part of a page."""

    study: StudyRegret
    panels: tuple[Panel, ...]
    scores: Scores
    pictures: tuple[Picture, ...] = ()
    prefix: str = ""
    """What tells this part's figures from those of others."""
    level: int = 2
    """Level of the headings of its sections."""

    @property
    def styles(self) -> dict[str, MethodStyle]:
        """How each method is named and drawn."""
        return method_styles(one.method for one in self.study.methods)

    def heading(self, text: str) -> str:
        """Return the heading of one section."""
        return f"<h{self.level}>{text}</h{self.level}>"


def part_of(
    study: StudyRegret,
    pictures: Sequence[Picture] = (),
    *,
    prefix: str = "",
    level: int = 2,
) -> Part:
    """Return the part of a page that is about a study of one problem."""
    panels, scores = tuple(study_panels(study)), scores_of(study)
    return Part(study, panels, scores, tuple(pictures), prefix, level)
