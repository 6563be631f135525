"""A mount's rules for failures, applied to what a result says."""

import re

from backends.mounts.mount import Rule
from core.vocabulary.contract import ErrorClass, ExecError


class Rules:
    """The rules that look at texts; those about exceptions are the host process's."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = [(re.compile(rule.pattern), rule) for rule in rules if rule.pattern is not None]

    def matched(self, text: str) -> ExecError | None:
        """The failure that a text tells of, if it tells of one."""
        for pattern, rule in self._rules:
            if pattern.search(text):
                return ExecError(rule.class_, rule.retryable, rule.effect, message=text)
        return None

    def error(self, text: str, otherwise: ErrorClass) -> ExecError:
        """What is a failure in any case; `otherwise` is its kind where no rule knows it."""
        return self.matched(text) or ExecError(otherwise, False, "unknown", message=text)
