"""What θ does to a MuJoCo machine: one table, every row acting on nominal values.

A setter is made once, while the model is as it was built; what it finds then is the
nominal value x₀.  Each call writes x(θ) = θ·x₀ (a factor) or x₀ + θ (a payload), never
a change of the current x, so θ may be set any number of times in any order, and the
nominal θ gives back the nominal model bit for bit.

What MuJoCo derives from them (such as masses of subtrees) is computed again by
``mj_setConst``, as its compiler does, on a scratch ``MjData``.

Delays and noise act on signals, not on the model: they have no setter here.
"""

# MuJoCo's modules are compiled and come without stubs.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import mujoco
import numpy as np

from driftrl.errors import require, unknown_name

Setter = Callable[[float], None]
SetterOf = Callable[[mujoco.MjModel, int | None], Setter]


@dataclass(frozen=True)
class Parameter:
    """One row of the table: a property of a MuJoCo machine that may drift."""

    name: str
    summary: str
    """One sentence: what θ is, with its unit."""
    setter: SetterOf | None = None
    """Capture the nominal values of a model; None if θ acts on signals."""
    nominal: float = 1.0
    """θ of the machine as it was built."""
    least: float = 0.0
    """Smallest θ that is allowed."""
    target: Literal["none", "actuator", "body"] = "none"
    """What may follow the colon, as in ``gear:2`` or ``mass:torso``."""
    target_required: bool = False
    """Whether something must follow the colon."""
    quantity: str = ""
    """What θ sets; only one parameter may set it at a time.  Empty for its name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantity", self.quantity or self.name)


@dataclass(frozen=True)
class BoundParameter:
    """A parameter with its target on one model."""

    row: Parameter
    index: int | None
    """The actuator or body that follows the colon; None for all of them."""
    text: str
    """As the configuration names it."""


def _factor_on(
    values: Callable[[mujoco.MjModel], Sequence[np.ndarray]], derive: bool = False
) -> SetterOf:
    """Return the maker of setters x(θ) = θ·x₀ for every array x of ``values``.

    ``derive`` says whether MuJoCo derives constants from them.
    """

    def make(model: mujoco.MjModel, index: int | None) -> Setter:
        rows = slice(None) if index is None else slice(index, index + 1)
        nominal = [value[rows].copy() for value in values(model)]

        def put(theta: float) -> None:
            for value, as_built in zip(values(model), nominal, strict=True):
                value[rows] = theta * as_built
            if derive:
                mujoco.mj_setConst(model, mujoco.MjData(model))

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
        mujoco.mj_setConst(model, mujoco.MjData(model))

    return put


def _has_contacts(model: mujoco.MjModel) -> bool:
    """Return whether any two geoms can be in contact."""
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
            "gear",
            "Factor on the nominal gear of all actuators, or of one: gear:2.",
            _factor_on(lambda model: (model.actuator_gear,), derive=True),
            target="actuator",
        ),
        Parameter(
            "mass",
            "Factor on mass and inertia of all bodies, or of one: mass:torso.",
            _factor_on(lambda model: (model.body_mass, model.body_inertia), True),
            least=0.01,  # MuJoCo can't move a body without mass.
            target="body",
        ),
        Parameter(
            "payload",
            "Kilograms added at the centre of mass of a body: payload:torso.",
            _payload,
            nominal=0.0,
            target="body",
            target_required=True,
            quantity="mass",
        ),
        Parameter(
            "friction",
            "Factor on the friction of every contact (at least 1e-5 is left).",
            _factor_on(_frictions),
        ),
        Parameter(
            "damping",
            "Factor on the damping of all joints.",
            _factor_on(lambda model: (model.dof_damping,)),
        ),
        Parameter(
            "gravity",
            "Factor on the acceleration of gravity.",
            _factor_on(lambda model: (model.opt.gravity,)),
        ),
        Parameter(
            "action_delay",
            "Decisions by which an action comes late, rounded to a whole one.",
            nominal=0.0,
        ),
        Parameter(
            "observation_delay",
            "Decisions by which an observation comes late, rounded likewise.",
            nominal=0.0,
        ),
        Parameter(
            "observation_noise",
            "Standard deviation of Gaussian noise on every observation.",
            nominal=0.0,
        ),
    )
}


def parse_parameter(text: str, model: mujoco.MjModel, task: str) -> BoundParameter:
    """Return the parameter ``name`` or ``name:target`` of a model.

    The target is the number or name of an actuator or body of the model.
    """
    name, colon, target = text.partition(":")
    if name not in PARAMETERS:
        raise unknown_name(f"parameter of task {task!r}:", name, PARAMETERS)
    row = PARAMETERS[name]
    require(
        name != "friction" or _has_contacts(model),
        f"Task {task!r} has no contacts, so its friction can't drift.",
    )
    require(
        row.target != "none" if colon else not row.target_required,
        f"Task {task!r}: parameter {name!r} {'takes no' if colon else 'needs a'} "
        f"target, received {text!r}.",
    )
    index = _target(row, target, model, task) if colon else None
    return BoundParameter(row, index, text)


def check_disjoint(parameters: Sequence[BoundParameter], task: str) -> None:
    """Refuse parameters that would overwrite each other if both drifted."""
    for first, second in combinations(parameters, 2):
        same_target = None in (first.index, second.index) or first.index == second.index
        require(
            first.row.quantity != second.row.quantity or not same_target,
            f"Task {task!r}: parameters {first.text!r} and {second.text!r} both set "
            f"the {first.row.quantity} of the same part; let only one of them drift.",
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
        raise unknown_name(f"{row.target} of task {task!r}:", target, spelled)
    return spelled[target]
