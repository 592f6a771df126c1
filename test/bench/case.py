# SPDX-License-Identifier: ISC
"""Definition of a case and of a goal."""

import dataclasses
import typing

from place import TARGETS, TRUSTED_USER


@dataclasses.dataclass(frozen=True)
class Goal:
    """The goal of pgweir for one figure of a case.

    At most `bound`, or at least if `is_least`; a multiple of the figure of target `of` if given.
    """

    metric: str
    bound: float
    of: str = None
    is_least: bool = False

    def __str__(self):
        sign = ">=" if self.is_least else "<="
        return f"{sign} {self.bound:g}" + (f" x {self.of}" if self.of else "")

    def limit(self, figures):
        """The goal as a figure, given target -> metric -> figure; None if there is none."""
        if not self.of:
            return self.bound
        other = figures.get(self.of, {}).get(self.metric)
        return None if other is None else self.bound * other

    def is_met(self, figures):
        """None if the required figures were not measured."""
        own, limit = figures.get("pgweir", {}).get(self.metric), self.limit(figures)
        if own is None or limit is None:
            return None
        return own >= limit if self.is_least else own <= limit


@dataclasses.dataclass
class Case:
    """`measure(bench, case, target)` gives metric -> figure. `words` are pgbench's."""

    name: str
    says: str
    measure: typing.Callable
    clients: int = 0
    words: tuple = ()
    script: str = None
    flavour: str = "trust"
    user: str = TRUSTED_USER
    sslmode: str = "disable"
    targets: tuple = tuple(TARGETS)
    goals: tuple = ()
    keeps: tuple = ()  # the figures to keep, if not all
    warmed: set = dataclasses.field(default_factory=set)


def client_count(count):
    return f"{count} client{'' if count == 1 else 's'}"
