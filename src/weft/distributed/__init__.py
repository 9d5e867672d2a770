# SPDX-License-Identifier: MIT
"""More than one process: the tasks that threads run here, on processes of this machine or on the workers of a Dask cluster.

Nothing outside of this folder imports Dask, and nothing in it does before it is asked for.
"""

from weft.distributed.clients import cluster, executor_for, tasks_on
from weft.distributed.files import open_lazily
from weft.distributed.processes import Processes
from weft.distributed.tasks import TaskError

__all__ = ["Processes", "TaskError", "cluster", "executor_for", "open_lazily", "tasks_on"]
