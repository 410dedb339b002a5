"""Tasks in processes of their own: results, order, errors, signals."""

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None:  # processes of tasks import this file, not PyTorch
    pytest.skip("PyTorch is missing", allow_module_level=True)

from sextant import side_by_side
from sextant.errors import RunError
from sextant.side_by_side import Task, TaskFailed
from sextant.training.interruption import AskedToEnd, Interrupted, Interruption


@pytest.fixture(autouse=True)
def as_a_command(monkeypatch):
    """Processes begin as those of `sextant reproduce`, which import PyTorch when a task needs
    it. None here does, and it would take most of the time."""
    monkeypatch.setattr(sys, "argv", ["/usr/bin/sextant"])


def _heard(*event):
    pass


def double(number, *, tell):
    tell(("half", number))
    return 2 * number, os.getpid(), os.environ.get("OMP_NUM_THREADS")


def write(path, *, tell):
    path.write_text("done")


def read(path, *, tell):
    return path.read_text()


def fail(error, *, tell):
    raise error


class _Picky(Exception):
    """Cannot be made from its own arguments, as some libraries' errors."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def fail_pickily(*, tell):
    raise _Picky(1, 2)


def die(number, *, tell):
    os.kill(os.getpid(), number)


def fail_beside_another(folder, error, *, tell):
    """Fails once `wait_to_be_asked` runs, however long its process took to begin."""
    while not (folder / "begun").exists():
        time.sleep(0.01)
    raise error


def wait_to_be_asked(folder, begun=None, *, tell):
    """As a training: ends after the step at hand, with a file for each."""
    with Interruption() as asking:
        if begun:
            begun.touch()
        for step in range(200):
            tell(step)
            time.sleep(0.05)
            if asking.asked:
                (folder / f"{os.getpid()}").write_text(str(step))
                raise Interrupted(step, folder, asking.asked)


def test_results_are_in_the_order_of_tasks_whichever_ends_first():
    told = []
    tasks = [Task(double, (n,)) for n in range(3)]
    found = side_by_side.run(tasks, 2, 6, lambda *event: told.append(event))
    assert [value for value, _, _ in found] == [0, 2, 4]
    assert len({process for _, process, _ in found} | {os.getpid()}) == 4
    assert {threads for _, _, threads in found} == {"3"}
    assert sorted(told) == [(n, ("half", n)) for n in range(3)]


def test_one_job_runs_here():
    told = []
    found = side_by_side.run([Task(double, (4,))], 1, 8, lambda *event: told.append(event))
    assert found[0][:2] == (8, os.getpid()) and told == [(0, ("half", 4))]


def test_a_task_begins_when_those_before_it_are_done(tmp_path):
    tasks = [Task(write, (tmp_path / "a",)), Task(read, (tmp_path / "a",), after=(0,))]
    assert side_by_side.run(tasks, 2, 2, _heard) == [None, "done"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_says_which_task_and_what(jobs):
    tasks = [Task(double, (1,)), Task(fail, (FileNotFoundError(2, "No such file", "x.txt"),))]
    with pytest.raises(TaskFailed, match="No such file") as found:
        side_by_side.run(tasks, jobs, 2, _heard)
    assert found.value.number == 1
    assert isinstance(found.value.error, FileNotFoundError)
    assert found.value.error.filename == "x.txt"


def test_an_error_that_cannot_be_sent_is_told():
    with pytest.raises(TaskFailed, match="_Picky: 1 and 2"):
        side_by_side.run([Task(fail_pickily)], 2, 2, _heard)


def test_a_process_that_is_killed_is_an_error_that_names_the_signal():
    tasks = [Task(double, (1,)), Task(die, (signal.SIGKILL,))]
    with pytest.raises(TaskFailed, match="ended by SIGKILL, maybe for want of memory") as found:
        side_by_side.run(tasks, 2, 2, _heard)
    assert found.value.number == 1 and type(found.value.error) is RunError


def test_a_failure_ends_the_others_in_order(tmp_path):
    failing = Task(fail_beside_another, (tmp_path, ValueError("no")))
    waiting = Task(wait_to_be_asked, (tmp_path, tmp_path / "begun"))
    tasks = [waiting, failing, Task(double, (1,))]
    with pytest.raises(TaskFailed, match="no") as found:
        side_by_side.run(tasks, 2, 2, _heard)
    assert found.value.number == 1
    (tmp_path / "begun").unlink()
    assert len(list(tmp_path.iterdir())) == 1, "the other had time to save"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_every_process_once(tmp_path, number):
    heard = set()

    def ask(task, step):
        heard.add(task)
        if heard == {0, 1} and step > 1:
            heard.add("asked")
            os.kill(os.getpid(), number)

    tasks = [Task(wait_to_be_asked, (tmp_path,)) for _ in range(3)]
    with pytest.raises(TaskFailed) as found:
        side_by_side.run(tasks, 2, 2, lambda *event: None if "asked" in heard else ask(*event))
    assert isinstance(found.value.error, Interrupted) and found.value.error.signal == number
    saved = [file.read_text() for file in tmp_path.iterdir()]
    assert len(saved) == 2, "both saved, the third never began"
    assert str(found.value.error.step) in saved


def test_a_process_that_cannot_save_yet_is_asked_to_end():
    with pytest.raises(TaskFailed) as found:
        side_by_side.run([Task(ask_parent)], 2, 2, _heard)
    assert isinstance(found.value.error, AskedToEnd)
    assert found.value.error.signal == signal.SIGTERM


def ask_parent(*, tell):
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)


def program(tmp_path, before=""):
    """The file of a program that runs two tasks which wait to be asked."""
    text = f"""
        import os, pathlib, signal, sys, threading
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from sextant import side_by_side
        from test_side_by_side import wait_to_be_asked

        if __name__ == "__main__":
            task = side_by_side.Task(wait_to_be_asked, (pathlib.Path({str(tmp_path)!r}),))
            {before}
            side_by_side.run([task, task], 2, 2, lambda *event: print(*event, flush=True))
    """
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(text))
    return file


def test_an_interrupt_of_the_terminal_while_processes_begin(tmp_path):
    """It comes to all of them, and they have nothing to say of where it met them."""
    interrupt = "threading.Timer(0.3, os.killpg, (0, signal.SIGINT)).start()"
    done = subprocess.run(
        [sys.executable, str(program(tmp_path, interrupt))],
        start_new_session=True, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr.count("Traceback") == 1 and "AskedToEnd" in done.stderr, done.stderr
    assert not done.stdout, "no task took a step"


def test_processes_end_with_the_one_that_began_them(tmp_path):
    """Even where that is killed; they are asked, and so can save."""
    file = program(tmp_path)
    with subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, text=True) as began:
        seen = set()
        for line in began.stdout:
            seen.add(line.split()[0])
            if len(seen) == 2:
                break
        began.kill()
    file.unlink()
    for _ in range(100):
        if len(saved := list(tmp_path.iterdir())) == 2:
            break
        time.sleep(0.1)
    assert len(saved) == 2


def test_jobs_are_bounded_by_threads_tasks_and_memory(monkeypatch):
    monkeypatch.setattr(side_by_side, "memory_limit", lambda: 8 * 2**30)
    assert side_by_side.jobs_for(10, 4, 0) == 4
    assert side_by_side.jobs_for(3, 4, 0) == 3
    assert side_by_side.jobs_for(10, 16, 3 * 2**30) == 2
    assert side_by_side.jobs_for(10, 16, 2**40) == 1
