"""What θ does to a MuJoCo machine: one table, every row acting on nominal values.

A setter is made once, while the model is as it was built; what it finds then is the
nominal value x₀.  Each call writes x(θ) = θ·x₀ (a factor) or x₀ + θ (a payload), never
a change of the current x, so θ may be set any number of times in any order, and the
nominal θ gives back the nominal model bit for bit.

What MuJoCo derives from the values that change (masses of subtrees, inverse weights of
joints and bodies, unit accelerations of actuators) is computed again by the function
that its compiler uses, on a scratch ``MjData``: the state of the plant stays untouched.

Delays and noise act on signals, not on the model.  They have no setter; the plant puts
them into force.
"""

# MuJoCo's modules are compiled and come without stubs.
# pyright: reportAttributeAccessIssue=false

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import mujoco
import numpy as np

from driftrl.errors import InputError, require, unknown_name

Setter = Callable[[float], None]
SetterOf = Callable[[mujoco.MjModel, int | None], Setter]


def _always(model: mujoco.MjModel) -> bool:
    """Say that the model has what the parameter acts on."""
    del model
    return True


@dataclass(frozen=True)
class Parameter:
    """One row of the table: something of a machine that may drift."""

    name: str
    summary: str
    """One sentence: what θ is, with its unit."""
    nominal: float
    """θ of the machine as it was built."""
    least: float
    """Smallest θ that is allowed."""
    target: Literal["none", "actuator", "body"]
    """What may follow the colon, as in ``gear:2`` or ``mass:torso``."""
    target_required: bool
    """Whether something must follow the colon."""
    setter: SetterOf | None
    """Capture the nominal values of a model; None if θ acts on signals."""
    writes: str
    """The quantity that θ sets, which no other parameter may set at the same time."""
    found_in: Callable[[mujoco.MjModel], bool] = _always
    """Whether a model has the quantity at all, so that θ changes anything."""


@dataclass(frozen=True)
class Named:
    """A parameter with its target, as a configuration names it."""

    row: Parameter
    index: int | None
    """The actuator or body that follows the colon; None for all of them."""
    text: str
    """What was parsed."""


def _derive(model: mujoco.MjModel) -> None:
    """Compute MuJoCo's derived constants again, from the model alone."""
    mujoco.mj_setConst(model, mujoco.MjData(model))


def _factor_on(
    values: Callable[[mujoco.MjModel], Sequence[np.ndarray]], derive: bool = False
) -> SetterOf:
    """Return the maker of setters x(θ) = θ·x₀ for every array x of ``values``.

    Args:
        values: Gives the arrays of a model, as views into it.
        derive: Whether MuJoCo derives constants from them.
    """

    def make(model: mujoco.MjModel, index: int | None) -> Setter:
        rows = slice(None) if index is None else slice(index, index + 1)
        nominal = [value[rows].copy() for value in values(model)]

        def put(theta: float) -> None:
            for value, as_built in zip(values(model), nominal, strict=True):
                value[rows] = theta * as_built
            if derive:
                _derive(model)

        return put

    return make


def _payload(model: mujoco.MjModel, index: int | None) -> Setter:
    """Return the setter m(θ) = m₀ + θ of one body.

    The load is a point at the body's centre of mass, so it moves neither that centre
    nor the inertia about it.
    """
    nominal = float(model.body_mass[index])

    def put(theta: float) -> None:
        model.body_mass[index] = nominal + theta
        _derive(model)

    return put


def _touches(model: mujoco.MjModel) -> bool:
    """Say whether any two geoms of the model can be in contact."""
    meets = model.geom_contype[:, None] & model.geom_conaffinity[None, :]
    return model.npair > 0 or bool(np.triu(meets | meets.T, k=1).any())


# MuJoCo gives a contact the larger friction of its two geoms (or that of the geom with
# priority, or of an explicit pair).  A factor on the floor alone may therefore change
# nothing; a factor on all of them is a factor on every contact.
def _frictions(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    return model.geom_friction, model.pair_friction


PARAMETERS: dict[str, Parameter] = {
    row.name: row
    for row in (
        Parameter(
            name="gear",
            summary="Factor on the nominal gear of all actuators, or of one: gear:2.",
            nominal=1.0,
            least=0.0,
            target="actuator",
            target_required=False,
            setter=_factor_on(lambda model: (model.actuator_gear,), derive=True),
            writes="gear",
            found_in=lambda model: len(model.actuator_gear) > 0,
        ),
        Parameter(
            name="mass",
            summary="Factor on mass and inertia of all bodies, or of one: mass:torso.",
            nominal=1.0,
            least=0.01,  # MuJoCo can't move a body without mass.
            target="body",
            target_required=False,
            setter=_factor_on(
                lambda model: (model.body_mass, model.body_inertia), derive=True
            ),
            writes="mass",
        ),
        Parameter(
            name="payload",
            summary="Kilograms added at the centre of mass of a body: payload:torso.",
            nominal=0.0,
            least=0.0,
            target="body",
            target_required=True,
            setter=_payload,
            writes="mass",
        ),
        Parameter(
            name="friction",
            summary="Factor on the friction of every contact (at least 1e-5 is left).",
            nominal=1.0,
            least=0.0,
            target="none",
            target_required=False,
            setter=_factor_on(_frictions),
            writes="friction",
            found_in=_touches,
        ),
        Parameter(
            name="damping",
            summary="Factor on the damping of all joints.",
            nominal=1.0,
            least=0.0,
            target="none",
            target_required=False,
            setter=_factor_on(lambda model: (model.dof_damping,)),
            writes="damping",
            found_in=lambda model: bool(model.dof_damping.any()),
        ),
        Parameter(
            name="gravity",
            summary="Factor on the acceleration of gravity.",
            nominal=1.0,
            least=0.0,
            target="none",
            target_required=False,
            setter=_factor_on(lambda model: (model.opt.gravity,)),
            writes="gravity",
            found_in=lambda model: bool(model.opt.gravity.any()),
        ),
        Parameter(
            name="action_delay",
            summary="Decisions by which an action comes late, rounded to a whole one.",
            nominal=0.0,
            least=0.0,
            target="none",
            target_required=False,
            setter=None,
            writes="action_delay",
        ),
        Parameter(
            name="observation_delay",
            summary="Decisions by which an observation comes late, rounded likewise.",
            nominal=0.0,
            least=0.0,
            target="none",
            target_required=False,
            setter=None,
            writes="observation_delay",
        ),
        Parameter(
            name="observation_noise",
            summary="Standard deviation of Gaussian noise on every observation.",
            nominal=0.0,
            least=0.0,
            target="none",
            target_required=False,
            setter=None,
            writes="observation_noise",
        ),
    )
}


def parse_parameter(text: str, model: mujoco.MjModel, task: str) -> Named:
    """Return the parameter that ``text`` names on this model.

    Args:
        text: ``name`` or ``name:target``; the target is a number or a name.
        model: The machine, which says what may be a target.
        task: Named in the refusal.

    Raises:
        InputError: If there is no such parameter, or no such target of it.
    """
    name, colon, target = text.partition(":")
    if name not in PARAMETERS:
        raise InputError(
            f"Task {task!r}: {unknown_name('parameter', name, PARAMETERS)}"
        )
    row = PARAMETERS[name]
    require(
        row.found_in(model),
        f"Task {task!r} has no {row.writes} that could drift, received {text!r}.",
    )
    require(
        not colon or row.target != "none",
        f"Task {task!r}: parameter {name!r} takes no target, received {text!r}.",
    )
    require(
        bool(colon) or not row.target_required,
        f"Task {task!r}: parameter {name!r} needs a {row.target}, "
        f"as in '{name}:NAME', received {text!r}.",
    )
    return Named(row, _target(row, target, model, task) if colon else None, text)


def checked(parameter: Parameter, theta: float, task: str) -> float:
    """Return θ, refused unless it is a number of at least ``parameter.least``."""
    require(
        math.isfinite(theta) and theta >= parameter.least,
        f"Task {task!r}: θ of parameter {parameter.name!r} must be a number of at "
        f"least {parameter.least:g}, received {theta!r}.",
    )
    return float(theta)


def check_disjoint(parameters: Sequence[Named], task: str) -> None:
    """Refuse parameters that would overwrite each other if both drifted."""
    for one, other in combinations(parameters, 2):
        same_target = None in (one.index, other.index) or one.index == other.index
        require(
            one.row.writes != other.row.writes or not same_target,
            f"Task {task!r}: parameters {one.text!r} and {other.text!r} both set the "
            f"{one.row.writes} of the same part, so only one of them can drift.",
        )


def _target(row: Parameter, target: str, model: mujoco.MjModel, task: str) -> int:
    """Return the number of an actuator or body, given by number or by name."""
    kind, first, count = {
        "actuator": (mujoco.mjtObj.mjOBJ_ACTUATOR, 0, len(model.actuator_gear)),
        "body": (mujoco.mjtObj.mjOBJ_BODY, 1, model.nbody),  # body 0 is the world
    }[row.target]
    names = {i: mujoco.mj_id2name(model, kind, i) for i in range(first, count)}
    spelled = {str(i): i for i in names} | {n: i for i, n in names.items() if n}
    if target not in spelled:
        listed = ", ".join(f"{i} ({n})" if n else f"{i}" for i, n in names.items())
        plural = "bodies" if row.target == "body" else "actuators"
        raise InputError(
            f"Task {task!r} has no {row.target} {target!r} for parameter "
            f"{row.name!r}. Its {plural} are {listed}."
        )
    return spelled[target]
