"""Take the learned model along: model predictive control of the tanks in CasADi.

Needs CasADi beside driftrl (pip install casadi).  The model of the example's run is
written to a file, rebuilt as a symbolic function, and a solver plans ten actions ahead
in it, wary of states of which the ensemble is not sure.
"""

from pathlib import Path
from typing import Any

import numpy as np
from my_machine import Tanks

import driftrl
from driftrl.export import export_model
from driftrl.exported import load_model

HORIZON, WARINESS = 10, 0.5


def symbolic(casadi: Any, model: Any) -> Any:
    """Return (obs, action) ↦ (next observation, reward, norm of σ) in CasADi."""
    states = len(model.spread) - 1
    obs = casadi.MX.sym("obs", states)
    action = casadi.MX.sym("action", model.weights[0].shape[1] - states)
    layers, made = list(zip(model.weights, model.biases, strict=True)), []
    for member in range(len(model.weights[0])):
        x = casadi.vertcat(obs, action)
        for number, (weight, bias) in enumerate(layers):
            x = x if number == 0 else x / (1 + casadi.exp(-x))
            x = casadi.DM(weight[member].T) @ x + casadi.DM(bias[member])
        made.append(x[: states + 1])
    centre: Any = sum(made) / len(made)
    apart = [casadi.sumsqr((one - centre)[:states]) for one in made]
    sigma = model.scale * casadi.sqrt(sum(apart) / len(made) + 1e-12)
    parts = [obs + centre[:states], centre[states], sigma]
    return casadi.Function("model", [obs, action], parts)


def planner(casadi: Any, model: Any) -> Any:
    """Return obs ↦ the first of the best actions, in [−1, 1]."""
    step, problem = symbolic(casadi, model), casadi.Opti()
    start = problem.parameter(step.size1_in(0))
    actions = problem.variable(step.size1_in(1), HORIZON)
    obs, total = start, 0
    for k in range(HORIZON):
        obs, reward, sigma = step(obs, actions[:, k])
        total += reward - WARINESS * sigma
    problem.minimize(-total)
    problem.subject_to(problem.bounded(-1, casadi.vec(actions), 1))
    quiet = {"print_level": 0, "sb": "yes", "max_iter": 50}
    problem.solver("ipopt", {"print_time": False, "error_on_fail": False}, quiet)
    return problem.to_function("plan", [start], [actions[:, 0]])


def main() -> None:
    """Learn for twenty days, then let the solver drive the twenty-first."""
    try:
        import casadi  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        print("This example needs CasADi: pip install casadi")
        return
    out = Path("runs/tanks_for_mpc")
    trained = driftrl.train(Tanks(), episodes=20, out=out)
    export_model(out, out / "model.npz")
    plan = planner(casadi, load_model(out / "model.npz"))
    drivers = {"policy": trained.act, "MPC": lambda obs: 5 * (plan(obs).full()[0] + 1)}
    for name, drive in drivers.items():
        env, total, over = Tanks(), 0.0, False
        obs, _ = env.reset(seed=1, options={"episode": 21})
        while not over:
            obs, reward, _, over, _ = env.step(np.asarray(drive(obs)))
            total += reward
        print(f"{name}: return {total:.2f}")


if __name__ == "__main__":
    main()
