"""A run's policy as a file: what JAX would do, without JAX."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.factories import record

import driftrl
from driftrl.agents.model_based import ModelBasedAgent
from driftrl.agents.model_free import ActorPolicy, SACAgent
from driftrl.cli.main import main
from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig, SACConfig
from driftrl.config.run import EnvironmentConfig, RunConfig
from driftrl.config.toml import to_dict, toml_text
from driftrl.envs.custom import GymPlant, custom_task, task_of
from driftrl.envs.tasks import configure
from driftrl.export import export_model, machine_bounds, mode_layers
from driftrl.exported import Policy, PolicyError, load_model, load_policy
from driftrl.memory.forgetting import Decision
from driftrl.models import ensemble
from driftrl.onnx_export import to_onnx
from driftrl.records import encode_record
from driftrl.training.assembly import make_agent
from driftrl.training.checkpoint import save_checkpoint
from driftrl.training.run_directory import read_config
from driftrl.video import newest_policy

KEY = jax.random.key(0)
TOLERANCE = 1e-6


def deep_policy(kind: type, states: int, actions: int, *hidden: int) -> ActorPolicy:
    """Make a policy as far from a fresh one as learning might take it."""
    config = kind(sac=SACConfig(hidden=hidden))
    make: Any = SACAgent if kind is SACAgentConfig else ModelBasedAgent
    agent = make((states, actions), config, capacity=8, steps=8)
    state = agent.initial_state(key=jax.random.key(len(hidden) + states))
    rng = np.random.default_rng(1)
    actor = jax.tree.map(
        lambda leaf: leaf + 0.1 * jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype),
        state.policy.actor,
    )
    policy = dataclasses.replace(state.policy, actor=actor)
    moved = dataclasses.replace(state, policy=policy)
    if kind is EnsembleAgentConfig:
        moved = dataclasses.replace(moved, average_actor=actor)
    return dataclasses.replace(agent.policy(moved), trained=True)


def exported(policy: ActorPolicy) -> Policy:
    layers = policy.actor.layers
    weights = tuple(np.asarray(layer.weight) for layer in layers)
    biases = tuple(np.asarray(layer.bias) for layer in layers)
    return Policy("t", 1, *mode_layers(weights, biases))


def observations(states: int) -> np.ndarray:
    """Return many that are ordinary, some that are not, and the corners."""
    rng = np.random.default_rng(2)
    ordinary = rng.normal(size=(150, states))
    extreme = 10.0 ** rng.uniform(-30, 6, size=(50, 1)) * rng.normal(size=(50, states))
    corners = [np.full(states, value) for value in (0.0, -0.0, 1.0, -1e6, 1e6, 1e-40)]
    return np.concatenate([ordinary, extreme, corners]).astype(np.float32)


@pytest.mark.parametrize("kind", [EnsembleAgentConfig, SACAgentConfig])
@pytest.mark.parametrize(
    ("states", "actions", "hidden"), [(1, 1, (5,)), (12, 2, (256, 256))]
)
def test_it_does_what_the_policy_of_jax_does(
    kind: type, states: int, actions: int, hidden: tuple[int, ...]
) -> None:
    # One action of 256 × 256 units takes 16 µs, and of JAX's policy 115 µs.
    policy = deep_policy(kind, states, actions, *hidden)
    alone, quiet = exported(policy), policy.deterministic()
    assert alone.sizes == (states, *hidden, actions)
    seen = []
    for obs in observations(states):
        expected, _ = quiet.act(obs, None, key=KEY)
        np.testing.assert_allclose(alone(obs), expected, rtol=0, atol=TOLERANCE)
        seen.append(expected)
    assert np.std(seen) > 0.1  # it does not say the same to everything


# ---- from the directory of a run -----------------------------------------------------


def configured(method: str) -> RunConfig:
    agent: dict[str, Any] = {"sac": {"hidden": [8, 6]}}
    if method != "sac":
        agent["model"] = {"members": 2, "hidden": [8]}
    environment = {"sim_steps": 10, "action_repeat": 2}
    settings = {"agent": agent, "environment": environment}
    return configure("pendulum-decay", method, settings)


def stored(config: RunConfig, directory: Path, *, updates: int) -> Path:
    """Write the files of a run that has seen two episodes, as far as export goes."""
    directory.mkdir()
    written = {**to_dict(config), "versions": {"driftrl": driftrl.__version__}}
    (directory / "config.toml").write_text(toml_text(written))
    agent: Any = make_agent(config)
    for episodes in (1, 2):
        state = agent.initial_state(key=jax.random.key(episodes))
        policy = dataclasses.replace(
            state.policy, updates=jnp.asarray(updates, state.policy.updates.dtype)
        )
        state = dataclasses.replace(state, policy=policy)
        save_checkpoint(directory / "checkpoint", episodes, state, Decision(1))
    return directory


@pytest.fixture(scope="module", params=["sw-ombrl", "sac"])
def learned(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a run that has learned."""
    directory = tmp_path_factory.mktemp("runs") / request.param
    return stored(configured(request.param), directory, updates=5)


@pytest.fixture
def copy(learned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(learned, tmp_path / "run"))


def export(directory: Path, to: Path, *options: str) -> int:
    return main(["export", str(directory), "--to", str(to), *options])


def test_a_run_is_exported_and_said_so(
    learned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "policy.npz"
    assert export(learned, to) == 0
    out, err = capsys.readouterr()
    assert err == "" and str(to) in out and "exported.py" in out
    assert all(word in out for word in ("(3, 8, 6, 1)", "--low"))
    policy, episodes = newest_policy(learned, read_config(learned))
    quiet, alone = policy.deterministic(), load_policy(to)
    assert (alone.task, alone.episode) == ("pendulum-decay", episodes) != ("", 1)
    for obs in observations(3):
        expected, _ = quiet.act(obs.astype(np.float64), None, key=KEY)
        np.testing.assert_allclose(alone(obs), expected, rtol=0, atol=TOLERANCE)
    assert [path.name for path in tmp_path.iterdir()] == ["policy.npz"]


def test_an_older_checkpoint_stands_in_for_a_damaged_one(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = copy / "checkpoint" / "000002.npz"
    state.write_bytes(state.read_bytes()[:-1])
    assert export(copy, tmp_path / "policy.npz") == 0
    assert load_policy(tmp_path / "policy.npz").episode == 1
    (copy / "checkpoint" / "000001.npz").unlink()
    assert export(copy, tmp_path / "other.npz") == 1
    assert "000002.npz is damaged" in capsys.readouterr().err
    assert not (tmp_path / "other.npz").exists()


def refusal(
    capsys: pytest.CaptureFixture[str], directory: Path, to: Path, *options: str
) -> str:
    assert export(directory, to, *options) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err and err.count("\n") == 1
    assert not to.exists()
    return err


def test_bad_input(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "policy.npz"
    assert "policy.pt" in refusal(capsys, copy, tmp_path / "policy.pt")
    assert "There is no directory" in refusal(capsys, copy, tmp_path / "no" / "p.npz")
    assert "no config.toml" in refusal(capsys, tmp_path, to)
    assert "--high" in refusal(capsys, copy, to, "--low", "1")
    assert "(1,)" in refusal(capsys, copy, to, *["--low", "1", "2", "--high", "3", "4"])
    shutil.rmtree(copy / "checkpoint")
    assert "no checkpoint yet" in refusal(capsys, copy, to)


def test_an_untrained_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = {"environment": {"sim_steps": 400}}
    config = configure("pendulum-decay", "sac", long)
    directory = stored(config, tmp_path / "run", updates=0)
    sentence = refusal(capsys, directory, tmp_path / "policy.npz")
    assert "128 transitions" in sentence and "Let the run go on" in sentence


def test_a_planner_has_no_policy_to_export(
    tiny: RunConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text(toml_text(to_dict(tiny)))
    sentence = refusal(capsys, tmp_path, tmp_path / "policy.npz")
    assert "agent.kind = 'gp'" in sentence


# ---- the machine's own bounds --------------------------------------------------------


LOW, HIGH = np.array([0.0, -2.0]), np.array([5.0, 0.7])


class Tank(gymnasium.Env[np.ndarray, np.ndarray]):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (12,))
    action_space = gymnasium.spaces.Box(LOW, HIGH, dtype=np.float64)


def test_a_run_knows_the_bounds_of_its_machine(tiny_deep: RunConfig) -> None:
    """Wrapped or not: they are those of the environment that was learned on."""
    wrapped = gymnasium.wrappers.RescaleAction(
        Tank(), np.array([-3.0, -3.0]), np.array([9.0, 9.0])
    )
    for env, expected in ((Tank(), [[0, -2], [5, 0.7]]), (wrapped, [[-3, -3], [9, 9]])):
        config = configure(task_of("a:b", env, 10), "sombrl")
        found = machine_bounds(config)
        assert found is not None
        assert [bound.tolist() for bound in found] == expected
    assert machine_bounds(tiny_deep) is None
    told = custom_task("press", observations=1, actions=1, steps=1)
    assert machine_bounds(configure(told, "sombrl")) is None


def test_commands_are_those_that_the_run_gave() -> None:
    plant = GymPlant(Tank(), EnvironmentConfig(sim_steps=5))
    policy = exported(deep_policy(SACAgentConfig, 12, 2, 16))
    bounded = dataclasses.replace(policy, low=LOW, high=HIGH)
    for obs in observations(12):
        expected = plant.command(policy(obs))
        np.testing.assert_allclose(bounded.command(obs), expected, rtol=0, atol=1e-15)


# ---- ONNX ----------------------------------------------------------------------------


def test_onnx_does_the_same() -> None:
    runtime = pytest.importorskip("onnxruntime")
    policy = exported(deep_policy(SACAgentConfig, 12, 2, 64, 32))
    bounds = {"low": np.array([0.0, -2.0]), "high": np.array([5.0, 2.0])}
    content = to_onnx(dataclasses.replace(policy, **bounds))
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for obs in observations(12):
        (action,) = session.run(["action"], {"obs": obs})
        np.testing.assert_allclose(action, policy(obs), rtol=0, atol=TOLERANCE)
    told = session.get_modelmeta().custom_metadata_map
    assert told == {
        "task": "t",
        "episode": "1",
        "repeat": "1",
        "low": "[0.0, -2.0]",
        "high": "[5.0, 2.0]",
    }


# ---- the model -----------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["mse", "homoscedastic", "likelihood"])
def test_the_model_predicts_what_the_ensemble_does(loss: str, tmp_path: Path) -> None:
    """In NumPy and in ONNX, of one transition and of rows, with σ scaled."""
    model = {"members": 3, "hidden": [16, 8], "loss": loss}
    changes = {"agent": {"sac": {"hidden": [8]}, "model": model}}
    config = configure("pendulum-decay", "sombrl", changes)
    rng = np.random.default_rng(3)
    directory = stored(config, tmp_path / "run", updates=5)
    agent: Any = make_agent(config)
    state = agent.initial_state(key=KEY)
    draw = lambda leaf: (
        leaf + jnp.asarray(0.3 * rng.normal(size=leaf.shape), leaf.dtype)
    )
    positive = lambda size: jnp.asarray(rng.uniform(0.5, 2.0, size), jnp.float32)
    statistics = ensemble.Statistics(positive(4), positive(4), positive(4), positive(4))
    believed = dataclasses.replace(
        state.model,
        members=jax.tree.map(draw, state.model.members),
        statistics=statistics,
    )
    policy = dataclasses.replace(
        state.policy, updates=jnp.asarray(5, state.policy.updates.dtype)
    )
    state = dataclasses.replace(state, model=believed, policy=policy)
    save_checkpoint(directory / "checkpoint", 2, state, Decision(1))
    rows = [record(n, error_quantile=3.0) for n in (1, 2)]
    (directory / "episodes.jsonl").write_text(
        "".join(encode_record(row) + "\n" for row in rows)
    )
    scale = (0.1 + 1.5 * 1.7) / (0.1 + 1.7)  # the newest weighs 1, the other 0.7

    assert main(["export", str(directory), "--model", str(tmp_path / "m.npz")]) == 0
    made = load_model(tmp_path / "m.npz")
    assert made.scale == pytest.approx(scale)
    obs, actions = rng.normal(size=(50, 3)), rng.uniform(-1, 1, size=(50, 1))
    expected = ensemble.predict_batch(
        believed, jnp.asarray(obs, jnp.float32), jnp.asarray(actions, jnp.float32)
    )
    parts = (
        expected.mean,
        expected.reward,
        scale * np.asarray(expected.epistemic_std)[:, :-1],
        scale * np.asarray(expected.aleatoric_std)[:, :-1],
    )
    for found, one, truth in zip(
        made(obs, actions), made(obs[0], actions[0]), parts, strict=True
    ):
        np.testing.assert_allclose(found, truth, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(one, found[0], rtol=1e-12)
    assert np.asarray(parts[2]).min() > 0.01  # the members do disagree

    runtime = pytest.importorskip("onnxruntime")
    export_model(directory, tmp_path / "m.onnx")
    session = runtime.InferenceSession(
        (tmp_path / "m.onnx").read_bytes(), providers=["CPUExecutionProvider"]
    )
    given = {"obs": obs.astype(np.float32), "action": actions.astype(np.float32)}
    names = ["next_obs", "reward", "epistemic_std", "noise_std"]
    for found, truth in zip(session.run(names, given), parts, strict=True):
        shaped = np.reshape(truth, found.shape)
        np.testing.assert_allclose(found, shaped, rtol=2e-5, atol=2e-5)


def test_a_model_that_does_not_fit(copy: Path, tmp_path: Path) -> None:
    if "sac" in read_config(copy).agent.kind:
        assert main(["export", str(copy), "--model", str(tmp_path / "m.npz")]) == 2
        return
    (copy / "episodes.jsonl").write_text(encode_record(record(1)) + "\n")
    assert main(["export", str(copy)]) == 2
    assert main(["export", str(copy), "--model", str(tmp_path / "m.npz")]) == 0
    model = load_model(tmp_path / "m.npz")
    with pytest.raises(PolicyError, match="3 observed numbers and 1 actions"):
        model(np.zeros(2), np.zeros(1))
    with pytest.raises(PolicyError, match="no policy"):
        load_policy(tmp_path / "m.npz")
    export(copy, tmp_path / "p.npz")
    with pytest.raises(PolicyError, match="no model"):
        load_model(tmp_path / "p.npz")
