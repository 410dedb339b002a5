"""How a command uses the processors that it really has.

OpenMP starts a thread per processor, and a thread that is done spins until the
others are: milliseconds of a processor's time for each parallel region. Where other
programs run, or where a control group grants less time than there are processors,
the one that spins takes the time of the one that it waits for, and a step takes many
times as long. OpenMP reads the environment when it is loaded, with torch, so that
nothing here imports torch; `prepare` comes before.

Waking a thread that sleeps takes longer than most waits of a step, though: between
two parallel regions a thread has nothing to do for microseconds. So threads spin for
about as long as waking one takes, and sleep after that.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Variables by which users say how threads wait, and how many there are.
WAITS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
THREADS = ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "MKL_NUM_THREADS")
# Looks of GNU's OpenMP, which PyTorch brings, at what it waits for before it sleeps:
# some 20 microseconds. Other OpenMPs do not know the variable and sleep at once.
# Measured by the section `waits` of the benchmark: 1000 to 10000 differ little, on
# idle machines and on busy ones.
SHORT_WAIT = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "4000"}


@dataclass(frozen=True)
class Processors:
    """``cores``: those that this process may run on. ``quota``: how many of them its
    control groups grant the time of; None without a limit."""

    cores: int
    quota: float | None = None


def find(root: str | Path = "/") -> Processors:
    """What this process may use; ``root`` holds ``proc`` and ``sys``."""
    return Processors(len(os.sched_getaffinity(0)), _quota(Path(root)))


def model_name(root: str | Path = "/") -> str:
    """What the processor is called."""
    try:
        lines = (Path(root) / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def choose(processors: Processors, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables to set; none that the user has a say on.

    Threads do not spin for long: whether a machine is idle now says nothing of the
    hours that a training takes. There are no more threads than the quota has time for.
    """
    chosen: dict[str, str] = {}
    if not any(name in environment for name in WAITS):
        chosen.update(SHORT_WAIT)
    if processors.quota is not None and not any(name in environment for name in THREADS):
        threads = max(1, int(processors.quota))
        if threads < processors.cores:
            chosen["OMP_NUM_THREADS"] = str(threads)
    return chosen


def prepare(environment: MutableMapping[str, str] = os.environ) -> None:
    """Sets what is chosen; to be called before torch is imported."""
    environment.update(choose(find(), environment))


def is_command(arguments: Sequence[str], original: Sequence[str]) -> bool:
    """Whether this process is ``sextant ...`` or ``python -m sextant ...``, seen while
    the package is imported: ``sys.argv`` and ``sys.orig_argv``. A program that
    imports the package keeps its own settings."""
    first = arguments[0] if arguments else ""
    if first != "-m":  # what it is while the module that -m names is looked up
        return Path(first).name == "sextant"
    for i, argument in enumerate(original):
        if argument.startswith("-m"):
            module = argument[2:] or (original[i + 1] if i + 1 < len(original) else "")
            return module.partition(".")[0] == "sextant"
    return False


def prepare_command() -> bool:
    """`prepare` where this process is the command line; whether it is."""
    is_one = is_command(sys.argv, sys.orig_argv)
    if is_one:
        prepare()
    return is_one


# Control groups -------------------------------------------------------------


def _quota(root: Path) -> float | None:
    """The least that a control group of this process or one around it grants."""
    limits = []
    for controllers, group in _groups(root / "proc/self/cgroup"):
        if controllers == "":  # version 2
            read, mount = _limit_v2, root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            read, mount = _limit_v1, _mount_v1(root, controllers)
        else:
            continue
        # In a container the path may be the host's, and only the root be there.
        folder = mount / group.lstrip("/")
        for place in (folder, *folder.parents):
            if place == mount or mount in place.parents:
                limits.append(read(place))
    return min((limit for limit in limits if limit is not None), default=None)


def _groups(file: Path) -> list[tuple[str, str]]:
    """Controllers and path of each hierarchy: lines ``number:controllers:path``."""
    parts = [line.split(":", 2) for line in _read(file).splitlines()]
    return [(p[1], p[2]) for p in parts if len(p) == 3]


def _mount_v1(root: Path, controllers: str) -> Path:
    folder = root / "sys/fs/cgroup"
    return next((p for p in (folder / controllers, folder / "cpu") if p.is_dir()), folder / "cpu")


def _limit_v2(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").partition(" ")
    return _ratio(quota, period)


def _limit_v1(folder: Path) -> float | None:
    return _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    """Processors' worth of time; None for what is no limit ("max", -1, no file)."""
    try:
        limit = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None
    return limit if limit > 0 else None


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
