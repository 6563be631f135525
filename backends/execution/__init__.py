"""Re-execution: recorded actions run again in an environment, every feedback and state compared.

Messages between are not made again, and no model is called. A difference that a rule calls cosmetic (a
time, a generated id) is one only if the environment gives yet another value there when the episode is
run once more; that second run also finds the tools that are not deterministic.
"""

from backends.execution.outcome import Diverged, Executed, Group, Summary, exit_code, summary
from backends.execution.preflight import Effect, effects
from backends.execution.run import Environments, Options, execute

__all__ = [
    "Diverged",
    "Effect",
    "Environments",
    "Executed",
    "Group",
    "Options",
    "Summary",
    "effects",
    "execute",
    "exit_code",
    "summary",
]
