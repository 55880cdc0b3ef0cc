"""Engines by name."""

from driftrl.config.engine import EngineConfig, EngineName
from driftrl.engines.local import LocalEngine
from driftrl.engines.seam import Engine


def engine_named(
    name: EngineName, config: EngineConfig, workers: int, options: tuple[str, ...] = ()
) -> Engine:
    """Return an engine; those of clusters import what they need when they are asked.

    Args:
        name: ``local``, ``ray`` or ``slurm``.
        config: What runs need, and where the cluster is.
        workers: Runs at once on this machine; a cluster takes what its size allows.
        options: Further ones of the worker.
    """
    if name == "local":
        return LocalEngine(workers, options)
    if name == "ray":
        from driftrl.engines.on_ray import RayEngine

        return RayEngine(config, options)
    from driftrl.engines.on_slurm import SlurmEngine

    return SlurmEngine(config, options)
