"""Former place of ``driftrl.oracles.table``."""

from driftrl.oracles.table import NO_ORACLE, OracleTable
from driftrl.oracles.table import Optimum as OracleValue

__all__ = ["NO_ORACLE", "OracleTable", "OracleValue"]
