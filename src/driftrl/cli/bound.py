"""The regret bound on the data of recorded runs, for the report."""

import numpy as np

from driftrl.cli.run_data import episodes_of, has_memory
from driftrl.figures.bound import MOST_COLUMNS, BoundColumn
from driftrl.records import Run
from driftrl.results.regret import MethodRegret, StudyRegret, thetas_of

_FEWEST_EPISODES = 2


def bound_columns(study: StudyRegret) -> tuple[BoundColumn, ...]:
    """Return the bound's terms beside the regret of the methods of a problem.

    Of runs that were driven by a Gaussian process and whose episodes are at hand; of
    many methods the baseline and those of least regret.
    """
    if not study.table.known or study.episodes < _FEWEST_EPISODES:
        return ()
    usable = [one for one in study.methods if _is_usable(study.runs_of(one.method))]
    best = sorted(usable, key=lambda one: one.final.mean)
    shown = sorted(best, key=lambda one: one.method != study.baseline)[:MOST_COLUMNS]
    return tuple(_column(study, one) for one in usable if one in shown)


def _is_usable(runs: list[Run]) -> bool:
    return all(
        run.config.get("agent", {}).get("kind") == "gp" and has_memory(run)
        for run in runs
    )


def _column(study: StudyRegret, one: MethodRegret) -> BoundColumn:
    from driftrl.models.lived_bound import lived_bound

    length = one.curves.shape[1]
    found = []
    for run in study.runs_of(one.method):
        records = run.records[:length]
        thetas = thetas_of(records)
        found.append(
            lived_bound(
                episodes_of(run, len(run.records))[:length],
                np.array([record.first_retained for record in records]),
                thetas if np.isfinite(thetas).all() else None,
            )
        )
    return BoundColumn(
        method=one.method,
        regret=np.diff(one.curves, prepend=0.0),
        uncertainty=np.array([bound.uncertainty for bound in found]),
        drift=np.array([bound.drift for bound in found]),
        learning_term=np.array([bound.terms.learning for bound in found]),
        drift_term=np.array([bound.terms.drift for bound in found]),
        most=np.array([bound.most for bound in found]),
    )
