"""Progress of several trainings: a line that says which are at which step, and how many steps
of all are done."""

from __future__ import annotations

from collections.abc import Sequence

from ..bars import bar


class StepBar:
    """``trainings``: name and number of steps of each. A step is told by the training's number
    and how many it has done."""

    def __init__(self, trainings: Sequence[tuple[str, int]]):
        self.trainings = trainings
        self.done = [0] * len(trainings)
        self.begun: set[int] = set()
        self.bar = bar(total=sum(steps for _, steps in trainings), unit="step")

    def step(self, number: int, done: int) -> None:
        """What was done before the first step that is told is not of this command, and does
        not count into its speed."""
        if number not in self.begun:
            self.begun.add(number)
            self.bar.initial += done - 1
            self.bar.n += done - 1
            self.done[number] = done - 1
        added, self.done[number] = done - self.done[number], done
        finished = sum(d == steps for d, (_, steps) in zip(self.done, self.trainings))
        self.bar.set_description_str(
            f"{finished}/{len(self.done)} trained"
            + "".join(f", {name} {d}/{steps}" for name, d, steps in self._at_work()),
            refresh=False,
        )
        self.bar.update(added)

    def _at_work(self) -> list[tuple[str, int, int]]:
        return [
            (name.partition("(")[0], done, steps)
            for done, (name, steps) in zip(self.done, self.trainings)
            if 0 < done < steps
        ]

    def __enter__(self) -> StepBar:
        return self

    def __exit__(self, *details) -> None:
        self.bar.close()
