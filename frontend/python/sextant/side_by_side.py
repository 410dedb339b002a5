"""Tasks side by side, each in a process with its share of the processors.

A training of a small model is short products of matrices with something serial between
them. Two trainings of one thread each take no more time than one after the other with two
threads, and less where much is serial or the machine is busy: no thread waits for another.
A task is a function of a module, called with its arguments and ``tell``, by which it says
how far it is. Ctrl-C and SIGTERM reach each process once, passed on from here; a process
ends when this one does.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from typing import Any

from .errors import RunError
from .memory import keep_freed_memory, memory_limit
from .training.interruption import AskedToEnd, Interrupted, Interruption

Heard = Callable[[int, Any], None]

# Seconds between looks at whether a signal has come.
_LOOK = 0.2
# What a process takes besides its task's own memory: PyTorch, the compiler, kernels.
_PROCESS_BYTES = 2**30
_TOLD, _DONE, _FAILED = range(3)


@dataclass(frozen=True)
class Task:
    """``function(*arguments, tell=...)``, both of which can be pickled; it begins when the
    tasks of the numbers ``after``, which are less than its own, are done."""

    function: Callable[..., Any]
    arguments: tuple = ()
    after: tuple[int, ...] = ()


class TaskFailed(RunError):
    """A task ended by an exception, or its process by a signal. ``number``: which task,
    ``error``: what it was (`Interrupted` where it was asked to end)."""

    def __init__(self, number: int, error: BaseException):
        super().__init__(str(error) or type(error).__name__)
        self.number = number
        self.error = error


def jobs_for(tasks: int, threads: int, task_bytes: int) -> int:
    """How many tasks to run at a time: one for each of so many threads, and no more than
    there is memory for, where each takes ``task_bytes`` besides what a process takes."""
    fitting = memory_limit() // (task_bytes + _PROCESS_BYTES)
    return max(1, min(tasks, threads, fitting))


def run(tasks: Sequence[Task], jobs: int, threads: int, heard: Heard) -> list[Any]:
    """Runs tasks, ``jobs`` at a time with ``threads`` threads in all, and gives their results.
    With one job they run in this process. ``heard(number, value)`` is called here with what
    tasks tell. The first that fails ends the others and is raised, as `TaskFailed`."""
    if jobs == 1:
        return [_here(number, task, heard) for number, task in enumerate(tasks)]
    crew = _Crew(tasks, heard, max(1, threads // jobs))
    try:
        with Interruption() as asking:
            while crew.is_busy(jobs, asking):
                crew.listen()
    finally:
        crew.kill()
    if crew.failed:
        raise crew.failed
    if asking.asked:  # with no process at work
        raise AskedToEnd(asking.asked)
    return [crew.results[number] for number in range(len(tasks))]


def _here(number: int, task: Task, heard: Heard) -> Any:
    try:
        return task.function(*task.arguments, tell=lambda value: heard(number, value))
    except KeyboardInterrupt as interrupted:
        raise TaskFailed(number, AskedToEnd(signal.SIGINT)) from interrupted
    except Exception as error:
        raise TaskFailed(number, error) from error


class _Crew:
    """The processes of some tasks."""

    def __init__(self, tasks: Sequence[Task], heard: Heard, threads: int):
        self.tasks = tasks
        self.heard = heard
        self.threads = threads
        self.waiting = list(range(len(tasks)))
        self.running: dict[connection.Connection, tuple[int, Any]] = {}
        self.results: dict[int, Any] = {}
        self.failed: TaskFailed | None = None
        self.passed_on = 0
        self.is_asked = False

    def is_busy(self, jobs: int, asking: Interruption) -> bool:
        """Begins what can begin, unless all is to end; whether any process runs."""
        if asking.asked and not self.passed_on:
            self.is_asked = True
            self._end(asking.asked)
        while not self.passed_on and len(self.running) < jobs:
            ready = (n for n in self.waiting if self.results.keys() >= {*self.tasks[n].after})
            number = next(ready, None)
            if number is None:
                break
            self._begin(number)
        return bool(self.running)

    def listen(self) -> None:
        """Takes in what processes say, for a moment."""
        for pipe in connection.wait(list(self.running), _LOOK):
            assert isinstance(pipe, connection.Connection)
            try:
                kind, value = pickle.loads(pipe.recv_bytes())
            except (EOFError, ConnectionResetError):  # it was killed
                kind, value = _FAILED, None
            number, process = self.running[pipe]
            if kind == _TOLD:
                self.heard(number, value)
                continue
            del self.running[pipe]
            pipe.close()
            process.join()
            if kind == _DONE:
                self.results[number] = value
            else:
                self._fail(number, value or _killed(process.exitcode))

    def kill(self) -> None:
        """Ends what still runs, at once: only after a second ctrl-C or an error of ours."""
        for pipe, (_, process) in self.running.items():
            process.kill()
            process.join()
            pipe.close()

    def _begin(self, number: int) -> None:
        self.waiting.remove(number)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, os.getpid()), daemon=True)
        resource_tracker.ensure_running()  # it leaves the mask of signals another when it begins
        with _environment(OMP_NUM_THREADS=str(self.threads)), _without_interrupts():
            process.start()
        theirs.close()
        self.running[ours] = number, process
        task = self.tasks[number]
        with contextlib.suppress(ConnectionError):  # it has ended, which `listen` finds
            ours.send_bytes(pickle.dumps((task.function, task.arguments)))

    def _fail(self, number: int, error: BaseException) -> None:
        """The first failure counts: those that follow are of tasks that were asked to end."""
        if self.is_asked and not isinstance(error, Interrupted):
            error = AskedToEnd(self.passed_on)
        if self.failed is None:
            self.failed = TaskFailed(number, error)
            self.failed.__cause__ = error
        if not self.passed_on:
            self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        """Asks all processes to end."""
        self.passed_on = number
        for _, process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)


def _killed(code: int | None) -> RunError:
    """The error of a process that ended without a word."""
    if code is not None and code < 0:
        hint = ", maybe for want of memory" if -code == signal.SIGKILL else ""
        return RunError(f"its process was ended by {signal.Signals(-code).name}{hint}")
    return RunError(f"its process ended with code {code} and without a result")


@contextlib.contextmanager
def _environment(**settings: str) -> Iterator[None]:
    """Variables that a process begins with: OpenMP reads them when it is loaded."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """A process that begins inside takes no ctrl-C until it says so: one of a terminal would
    end it while it imports, with a traceback of each."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the process of a task ----------------------------------------------------


def _work(pipe: connection.Connection, parent: int) -> None:
    os.setpgrp()  # ctrl-C of a terminal goes to the parent alone, which passes it on
    _end_with(parent)
    keep_freed_memory()

    def say(kind: int, value: Any) -> None:
        with contextlib.suppress(ConnectionError):  # the parent is gone; a signal says so
            pipe.send_bytes(pickle.dumps((kind, value)))

    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # one since it began comes now
        function, arguments = pickle.loads(pipe.recv_bytes())
        say(_DONE, function(*arguments, tell=lambda value: say(_TOLD, value)))
    except (Exception, KeyboardInterrupt) as error:
        say(_FAILED, _portable(error))
    pipe.close()


def _portable(error: BaseException) -> BaseException:
    """The error, or one of its text where it cannot be sent, with where it comes from, which
    --debug shows."""
    try:
        found = pickle.loads(pickle.dumps(error))
    except Exception:  # whatever an exception's own constructor does
        found = RunError(f"{type(error).__name__}: {error}")
    if hasattr(found, "add_note"):  # from Python 3.11 on
        found.add_note(traceback.format_exc())
    return found


def _end_with(parent: int) -> None:
    """Asks the kernel for a SIGTERM when the parent ends, whatever ends it."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before
        os.kill(os.getpid(), signal.SIGTERM)
