"""A schedule: who works on the lake, when each has to wait for another, and what goes wrong. All of it is data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from nabla.dev.testing.fuzz.shrinking import without_some

Role = Literal["writer", "refresher", "vacuum", "housekeeper", "reader"]
Kind = Literal["fail", "fail after", "half", "die", "die after", "cut", "cut after", "delay", "long delay"]
Loss = Literal["nothing", "some", "everything"]

ROLES: tuple[Role, ...] = (
    *("writer", "writer", "writer", "refresher", "refresher", "vacuum", "housekeeper", "housekeeper", "reader"),
)
KINDS: tuple[Kind, ...] = ("fail", "fail after", "half", "die", "die after", "cut", "cut after", "delay", "long delay")
LOSSES: tuple[Loss, ...] = ("nothing", "some", "some", "everything", "everything")
LONGEST = 260
"""File operations of an actor among which switches and faults are placed; most actors need fewer."""


@dataclass(frozen=True)
class Actor:
    """A process with a handle of the lake of its own: what it does, and how many times."""

    role: Role
    times: int = 1


@dataclass(frozen=True)
class Switch:
    """Before the `at`-th file operation of an actor another one goes on."""

    actor: int
    at: int
    to: int


@dataclass(frozen=True)
class Fault:
    """What goes wrong at the `at`-th file operation of an actor.

    fail        it raises an OSError and does nothing (`fail after`: it has done everything)
    half        a write leaves half of the file and raises; any other operation fails
    die         the process ends before it (`die after`: after it); other processes go on
    cut         the power goes before it (`cut after`: after it): all processes end, and what was not synced may be lost
    delay       the clock moves on by more than the vacuum's grace (`long delay`: by more than any lease lasts)
    """

    actor: int
    at: int
    kind: Kind


@dataclass(frozen=True)
class Schedule:
    """Actors, switches and faults. `loss` says what a power cut takes of all that was not synced, and `seed` which of it."""

    actors: tuple[Actor, ...]
    switches: tuple[Switch, ...] = ()
    faults: tuple[Fault, ...] = ()
    loss: Loss = "everything"
    cut_at_end: bool = False
    seed: int = 0

    @property
    def size(self) -> int:
        return (
            4 * sum(actor.times for actor in self.actors) + 2 * len(self.faults) + len(self.switches) + self.cut_at_end
        )


def random_schedule(seed: int, number: int) -> Schedule:
    """The schedule of this number. The same seed and number give the same one, everywhere."""
    rng = Random(f"{seed} {number}")
    actors = (Actor("writer", rng.randint(1, 2)), *(Actor(rng.choice(ROLES)) for _ in range(rng.randint(1, 3))))
    often = rng.choice((0.01, 0.05, 0.2))
    switches = [
        Switch(actor, at, rng.randrange(len(actors)))
        for actor in range(len(actors))
        for at in range(1, LONGEST)
        if rng.random() < often
    ]
    faults = [
        Fault(rng.randrange(len(actors)), rng.randint(1, LONGEST), rng.choice(KINDS))
        for _ in range(rng.choice((0, 1, 1, 2, 4)))
    ]
    return Schedule(
        actors,
        tuple(switch for switch in switches if switch.to != switch.actor),
        tuple(sorted(faults, key=lambda fault: (fault.actor, fault.at))),
        rng.choice(LOSSES),
        rng.random() < 0.3,
        rng.randrange(1_000_000),
    )


def smaller(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules with something left out."""
    for faults in without_some(schedule.faults):
        yield replace(schedule, faults=tuple(faults))
    for switches in without_some(schedule.switches):
        yield replace(schedule, switches=tuple(switches))
    for i in range(len(schedule.actors)):
        yield _without_actor(schedule, i)
    for i, actor in enumerate(schedule.actors):
        if actor.times > 1:
            fewer = (*schedule.actors[:i], replace(actor, times=actor.times - 1), *schedule.actors[i + 1 :])
            yield replace(schedule, actors=fewer)
    if schedule.cut_at_end:
        yield replace(schedule, cut_at_end=False)


def _without_actor(schedule: Schedule, gone: int) -> Schedule:
    def moved(number: int) -> int:
        return number - (number > gone)

    switches = (s for s in schedule.switches if gone not in (s.actor, s.to))
    return replace(
        schedule,
        actors=(*schedule.actors[:gone], *schedule.actors[gone + 1 :]),
        switches=tuple(Switch(moved(s.actor), s.at, moved(s.to)) for s in switches),
        faults=tuple(Fault(moved(f.actor), f.at, f.kind) for f in schedule.faults if f.actor != gone),
    )


def script_of(schedule: Schedule, violation: str) -> str:
    """A Python script that runs the schedule again."""
    said = "\n".join(f"# {line}" for line in violation.splitlines())
    return (
        f"{said}\n"
        "from nabla.dev.simulate.run import run\n"
        "from nabla.dev.simulate.schedule import Actor, Fault, Schedule, Switch\n\n"
        f"run({schedule!r})\n"
    )
