"""What commands tell OpenMP: waits and numbers of threads."""

import os
import subprocess
import sys

import pytest

from sextant import processors
from sextant.processors import SHORT_WAIT, Processors, choose, find, is_command


@pytest.mark.parametrize(
    "given, environment, chosen",
    [
        (Processors(8), {}, SHORT_WAIT),
        (Processors(8, 8.0), {}, SHORT_WAIT),
        (Processors(8, 16.0), {}, SHORT_WAIT),
        (Processors(8, 2.5), {}, {**SHORT_WAIT, "OMP_NUM_THREADS": "2"}),
        (Processors(2, 0.5), {}, {**SHORT_WAIT, "OMP_NUM_THREADS": "1"}),
        (Processors(1, 0.5), {}, SHORT_WAIT),
        # What the user has set stays.
        (Processors(8, 2.0), {"OMP_NUM_THREADS": "5"}, SHORT_WAIT),
        (Processors(8, 2.0), {"OMP_WAIT_POLICY": "active"}, {"OMP_NUM_THREADS": "2"}),
        (Processors(8, 2.0), {"GOMP_SPINCOUNT": "1000"}, {"OMP_NUM_THREADS": "2"}),
        (Processors(8), {"KMP_BLOCKTIME": "200"}, {}),
    ],
)
def test_choice(given, environment, chosen):
    assert choose(given, environment) == chosen


def machine(folder, groups, files):
    """A root with what the kernel says of control groups."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = folder / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    "groups, files, quota",
    [
        ("", {}, None),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        # The tightest of the groups around it.
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, 0.5),
        # A container that sees the host's path and its own root.
        ("0::/host/path\n", {"cpu.max": "200000 100000"}, 2.0),
        (
            "4:cpu,cpuacct:/a\n3:memory:/a\n",
            {
                "cpu,cpuacct/a/cpu.cfs_quota_us": "300000\n",
                "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
                "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("nonsense\n0::/\n", {"cpu.max": "many 0"}, None),
        ("0::/\n", {"cpu.max": "1 0"}, None),
    ],
)
def test_quota(tmp_path, groups, files, quota):
    found = find(machine(tmp_path, groups, files))
    assert found == Processors(len(os.sched_getaffinity(0)), quota)


@pytest.mark.parametrize(
    "arguments, original, yes",
    [
        (["-m", "train"], ["python", "-m", "sextant", "train"], True),
        (["-m"], ["python", "-u", "-msextant"], True),
        (["-m"], ["python", "-m", "sextant.cli"], True),
        (["-m"], ["python", "-m", "other"], False),
        (["-m"], ["python", "-m"], False),
        (["/usr/bin/sextant", "eval"], ["python", "/usr/bin/sextant", "eval"], True),
        (["/usr/bin/pytest"], ["python", "-m", "pytest"], False),
        (["train.py", "-m", "sextant"], ["python", "train.py", "-m", "sextant"], False),
        ([""], ["python"], False),
        ([], [], False),
    ],
)
def test_only_commands_choose(arguments, original, yes):
    assert is_command(arguments, original) is yes


def test_a_command_waits_for_a_short_time_and_a_program_as_it_likes():
    """OpenMP says what it has read when it is loaded."""
    environment = {k: v for k, v in os.environ.items() if k not in processors.WAITS}
    environment["OMP_DISPLAY_ENV"] = "verbose"

    def policy(*arguments, name="OMP_WAIT_POLICY", **more):
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            env={**environment, **more},
        )
        lines = [line for line in done.stderr.splitlines() if name in line]
        assert lines, done.stderr
        return lines[0].partition("=")[2].strip(" '").lower()

    command = ("-m", "sextant", "compare", "no run")  # which fails behind the import of torch
    assert policy(*command) == "passive"
    assert policy(*command, name="GOMP_SPINCOUNT") == SHORT_WAIT["GOMP_SPINCOUNT"]
    assert policy(*command, OMP_WAIT_POLICY="active") == "active"
    assert policy("-c", "import sextant, sys; print(sys.argv)") == policy("-c", "import torch")
