"""A whole study: how its methods did, problem by problem."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from driftrl.errors import require
from driftrl.oracles.values import OracleTable
from driftrl.records import Run
from driftrl.results.problems import problems_of
from driftrl.results.regret import StudyRegret, compare_methods


@dataclass(frozen=True)
class Comparison:
    """The regret on each problem of a study; on different problems it says nothing."""

    studies: tuple[StudyRegret, ...]
    """One for each problem with a recorded episode, at least one."""
    waiting: tuple[str, ...] = ()
    """Labels of the problems that no run has recorded an episode of."""
    notes: tuple[str, ...] = ()
    """What has to be said of the runs wherever this is shown: which were left out."""

    @property
    def has_one_problem(self) -> bool:
        """Whether all runs can be compared with each other."""
        return len(self.studies) + len(self.waiting) == 1


def compare_problems(
    runs: Iterable[Run],
    oracle: Callable[[Sequence[Run]], OracleTable],
    notes: Sequence[str] = (),
) -> Comparison:
    """Compare the methods of a study on each of its problems.

    Args:
        runs: All runs of the study, finished or not.
        oracle: Gives J*(θ) for every θ that the runs of one problem have met, or
            ``NO_ORACLE``.
        notes: What has to be said of the runs wherever they are shown.
    """
    problems = problems_of(runs)
    started = [one for one in problems if any(run.records for run in one.runs)]
    require(bool(started), "No run has recorded an episode yet: there is no regret.")
    studies = [
        compare_methods(one.runs, oracle(one.runs), problem=one.label)
        for one in started
    ]
    waiting = [one.label for one in problems if one not in started]
    return Comparison(tuple(studies), tuple(waiting), tuple(notes))
