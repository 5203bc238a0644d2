"""Put on PYTHONPATH by the crash tests: kills the whole run at the n-th time that a commit point is reached.

CURATE_TEST_KILL is "<point>:<n>:<counter file>". The counter file is shared by all processes of the run, one byte for each time.
"""

import importlib.abc
import importlib.machinery
import os
import signal
import sys

_point, _number, _counter = os.environ["CURATE_TEST_KILL"].split(":", 2)


def _reached(point):
    if point != _point:
        return
    with open(_counter, "ab") as file:  # noqa: PTH123 (runs at the start of every process)
        file.write(b"x")
        file.flush()
        count = os.fstat(file.fileno()).st_size
    if count == int(_number):
        leader = int(os.environ["CURATE_TEST_LEADER"]) if "CURATE_TEST_LEADER" in os.environ else os.getppid()
        os.kill(leader, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "curate.cache":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            module.reached = _reached

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
