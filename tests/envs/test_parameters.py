"""What θ does to a MuJoCo model: hand checks, and the way back to nominal."""

# MuJoCo's modules are compiled and come without stubs.
# pyright: reportAttributeAccessIssue=false

import functools
from collections.abc import Sequence
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.envs.mujoco import MujocoEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.envs.parameters import PARAMETERS, Setter, check_disjoint, parse_parameter
from driftrl.errors import InputError

MACHINES = {
    "HalfCheetah": "bfoot",
    "Hopper": "thigh",
    "Walker2d": "thigh_left",
    "Ant": "aux_1",
    "Humanoid": "pelvis",
    "HumanoidStandup": "pelvis",
    "InvertedDoublePendulum": "pole2",
}
"""Every machine, with a body of it."""

CHANGED = {
    "gear": 0.5,
    "gear:0": 0.5,
    "mass": 1.5,
    "mass:BODY": 1.5,
    "payload:BODY": 0.7,
    "friction": 0.2,
    "damping": 2.0,
    "gravity": 0.8,
}
"""Every parameter of a model, with a θ that is not nominal."""

DERIVED = {
    *("body_subtreemass", "body_invweight0", "dof_invweight0", "dof_M0"),
    *("actuator_acc0", "tendon_invweight0", "cam_poscom0", "light_poscom0"),
}
AFFECTED = {
    "gear": {"actuator_gear", "actuator_acc0"},
    "mass": {"body_mass", "body_inertia"} | DERIVED,
    "payload": {"body_mass"} | DERIVED,
    "friction": {"geom_friction"},
    "damping": {"dof_damping"},
    "gravity": {"opt.gravity"},
}
"""The arrays of the model that a parameter may change."""

CASES = [
    (machine, text.replace("BODY", body), theta)
    for machine, body in MACHINES.items()
    for text, theta in CHANGED.items()
    if (machine, text) != ("InvertedDoublePendulum", "friction")  # touches nothing
]

SLIDER = """
<mujoco>
  <option timestep="0.001" cone="elliptic"/>
  <worldbody>
    <geom name="floor" type="plane" size="50 50 1" friction="0.1 0 0"/>
    <body name="box" pos="0 0 0.1">
      <joint type="slide" axis="1 0 0"/>
      <joint type="slide" axis="0 0 1"/>
      <geom name="box" type="box" size="0.5 0.5 0.1" friction="0.4 0 0"/>
    </body>
  </worldbody>
  {pair}
</mujoco>
"""
PAIR = """
  <contact><pair geom1="floor" geom2="box" friction="0.4 0.4 0 0 0"/></contact>
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let MuJoCo, which logs into the working directory, do so outside the tree."""
    monkeypatch.chdir(tmp_path)


@functools.cache
def built(machine: str) -> MujocoEnv:
    env = gymnasium.make(f"{machine}-v5").unwrapped
    assert isinstance(env, MujocoEnv)
    return env


@pytest.fixture
def hopper() -> mujoco.MjModel:
    return built("Hopper").model


def setter(text: str, model: mujoco.MjModel) -> Setter:
    named = parse_parameter(text, model, "a task")
    assert named.row.setter is not None
    return named.row.setter(model, named.index)


def nominal(text: str) -> float:
    return PARAMETERS[text.partition(":")[0]].nominal


def arrays(model: mujoco.MjModel) -> dict[str, np.ndarray]:
    """Return a copy of every array of the model, its options and its statistics."""
    parts = {"": model, "opt.": model.opt, "stat.": model.stat}
    fields = {
        prefix + name: getattr(part, name)
        for prefix, part in parts.items()
        for name in dir(part)
        if not name.startswith("_")
    }
    return {
        name: np.array(value)
        for name, value in fields.items()
        if isinstance(value, np.ndarray | int | float | bytes)
    }


def stored(model: mujoco.MjModel) -> bytes:
    """Return the whole model as MuJoCo saves it."""
    buffer = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()


def differing(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> set[str]:
    assert first.keys() == second.keys()
    return {name for name in first if first[name].tobytes() != second[name].tobytes()}


def play(env: MujocoEnv, steps: int = 40) -> np.ndarray:
    """Return observations and rewards of a seeded episode with seeded actions."""
    obs, _ = env.reset(seed=3)
    low, high = env.model.actuator_ctrlrange.T
    actions = np.random.default_rng(5).uniform(low, high, (steps, env.model.nu))
    rows = [np.append(obs, 0.0)]
    for action in actions:
        obs, reward, *_ = env.step(action)
        rows.append(np.append(obs, reward))
    return np.array(rows)


def inertia_matrix(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Return M(q) without the armature, which no parameter changes."""
    mujoco.mj_forward(model, data)
    matrix = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, matrix)
    return matrix - np.diag(model.dof_armature)


@pytest.mark.parametrize(("machine", "text", "theta"), CASES)
def test_on_is_another_trajectory_and_off_is_the_same_again(
    machine: str, text: str, theta: float
) -> None:
    env = built(machine)
    before, as_built, values = play(env), stored(env.model), arrays(env.model)
    put = setter(text, env.model)
    put(theta)
    changed = differing(values, arrays(env.model))
    assert changed and changed <= AFFECTED[text.partition(":")[0]]
    assert np.abs(play(env) - before).max() > 1e-3
    put(nominal(text))
    assert differing(values, arrays(env.model)) == set()
    assert stored(env.model) == as_built
    np.testing.assert_array_equal(play(env), before)


thetas = st.floats(0.05, 5.0)
TOGETHER = ("gear:1", "mass:foot", "payload:torso", "friction", "damping", "gravity")


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, len(TOGETHER) - 1), thetas), max_size=12),
    st.lists(thetas, min_size=len(TOGETHER), max_size=len(TOGETHER)),
    st.permutations(range(len(TOGETHER))),
)
def test_only_the_last_values_count_and_nominal_ones_restore_the_model(
    history: list[tuple[int, float]], last: list[float], order: Sequence[int]
) -> None:
    model, fresh = (
        mujoco.MjModel.from_xml_path(built("Hopper").fullpath) for _ in range(2)
    )
    as_built = stored(model)
    puts = [setter(text, model) for text in TOGETHER]
    for index, theta in history:
        puts[index](theta)
    for index in order:
        puts[index](last[index])
    for text, theta in zip(TOGETHER, last, strict=True):
        setter(text, fresh)(theta)
    assert stored(model) == stored(fresh)
    for index, text in enumerate(TOGETHER):
        puts[index](nominal(text))
    assert stored(model) == as_built


def as_if_built(change: str, theta: float) -> mujoco.MjModel:
    """Return the hopper compiled from a description that has the change in it."""
    spec = mujoco.MjSpec.from_file(built("Hopper").fullpath)
    for geom in spec.geoms:
        geom.density *= theta if change == "mass" else 1.0
        geom.friction = geom.friction * (theta if change == "friction" else 1.0)
    for joint in spec.joints:
        joint.damping = joint.damping * (theta if change == "damping" else 1.0)
    for actuator in spec.actuators:
        actuator.gear = actuator.gear * (theta if change == "gear" else 1.0)
    if change == "gravity":
        spec.option.gravity = spec.option.gravity * theta
    return spec.compile()


@pytest.mark.parametrize("text", ["gear", "mass", "friction", "damping", "gravity"])
def test_set_is_as_if_built(text: str) -> None:
    model = mujoco.MjModel.from_xml_path(built("Hopper").fullpath)
    setter(text, model)(0.6)
    theirs = arrays(as_if_built(text, 0.6))
    for name, ours in arrays(model).items():
        # The compiler's means of mass and inertia scale the solver's tolerance only.
        if ours.dtype.kind == "f" and name not in {"stat.meaninertia", "stat.meanmass"}:
            np.testing.assert_allclose(ours, theirs[name], 1e-9, 1e-12, err_msg=name)


def test_payload_is_a_point_at_the_centre_of_mass(hopper: mujoco.MjModel) -> None:
    data = mujoco.MjData(hopper)
    data.qpos[2:] = [0.1, -0.3, -0.4, 0.2]
    before, mass = inertia_matrix(hopper, data), hopper.body_mass.copy()
    thigh = mujoco.mj_name2id(hopper, mujoco.mjtObj.mjOBJ_BODY, "thigh")
    jacobian, turning = np.zeros((2, 3, hopper.nv))
    mujoco.mj_jacBodyCom(hopper, data, jacobian, turning, thigh)
    put = setter("payload:thigh", hopper)
    put(2.0)
    assert hopper.body_mass[thigh] == mass[thigh] + 2.0
    assert hopper.body_mass.sum() == pytest.approx(mass.sum() + 2.0, rel=1e-12)
    assert hopper.body_subtreemass[1] == pytest.approx(mass.sum() + 2.0, rel=1e-12)
    assert hopper.body_subtreemass[3] == pytest.approx(mass[3:].sum(), rel=1e-12)
    # A point of mass m that moves with v = J q̇ adds m JᵀJ to the inertia matrix.
    np.testing.assert_allclose(
        inertia_matrix(hopper, data), before + 2.0 * jacobian.T @ jacobian, atol=1e-12
    )
    put(0.0)


@pytest.mark.parametrize("pair", ["", PAIR])
@pytest.mark.parametrize("theta", [0.5, 1.0, 1.5])
def test_friction_of_a_sliding_box_is_scaled(theta: float, pair: str) -> None:
    model = mujoco.MjModel.from_xml_string(SLIDER.format(pair=pair))
    setter("friction", model)(theta)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=500)  # until it lies still
    data.qvel[0] = 3.0
    mujoco.mj_forward(model, data)
    along, up = data.qfrc_constraint
    assert up > 0
    # Coulomb: the force along the floor is μ times that on it, the larger μ counts.
    assert -along == pytest.approx(theta * 0.4 * up, rel=1e-3)


def test_parts_have_names_and_numbers() -> None:
    model = built("Ant").model
    cheetah = built("HalfCheetah").model
    assert parse_parameter("gear:bshin", cheetah, "cheetah").index == 1
    assert parse_parameter("gear:7", model, "ant").index == 7
    assert parse_parameter("mass:4", model, "ant").index == 4
    assert parse_parameter("mass:aux_1", model, "ant").index == 3


@pytest.mark.parametrize(
    "text",
    [
        *("ger", "gear:3", "gear:-1", "gear:", "mass:arm", "mass:world", "mass:0"),
        *("payload", "gravity:torso"),
    ],
)
def test_refused_names(text: str, hopper: mujoco.MjModel) -> None:
    with pytest.raises(InputError, match=f"'hopper'.*{text.partition(':')[2]}"):
        parse_parameter(text, hopper, "hopper")


def test_what_a_machine_does_not_have_cannot_drift() -> None:
    with pytest.raises(InputError, match="friction"):
        parse_parameter("friction", built("InvertedDoublePendulum").model, "idp")


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ("gear:0", "gear:1", True),
        ("mass:torso", "payload:leg", True),
        ("gear", "gear:1", False),
        ("mass:leg", "payload:leg", False),
        ("action_delay", "action_delay", False),
    ],
)
def test_two_parameters_may_not_set_the_same(
    first: str, second: str, apart: bool, hopper: mujoco.MjModel
) -> None:
    friction = parse_parameter("friction", hopper, "hopper")
    one, other = (parse_parameter(text, hopper, "t") for text in (first, second))
    for both in ([one, friction, other], [other, one, friction]):
        if apart:
            check_disjoint(both, "hopper")
            continue
        with pytest.raises(InputError, match=first):
            check_disjoint(both, "hopper")
