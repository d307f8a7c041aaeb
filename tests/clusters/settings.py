"""Settings of a cluster's process; `CLUSTER_TEST` in the environment says which broker it has."""

import json
import os

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.clusters.apps.ClustersConfig"]

Q_CLUSTER = {
    "name": "clusters",
    "workers": 2,
    "queue_limit": 1,
    "bulk": 1,
    "timeout": 10,
    "retry": 35,
    "max_attempts": 0,
    "poll": 0.05,
    "guard_cycle": 0.2,
    "catch_up": False,
    "log_level": "ERROR",
    **json.loads(os.environ["CLUSTER_TEST"]),
}

# Small batches, so that a kill finds many states.
IDEMPOTENT_ACTIONS = {
    "BATCH_SIZE": 3,
    "WORKERS": 2,
    "SCHEDULES": {
        "tick": {"cron": "* * * * * */2"},
        "deliver_captures": {"cron": "* * * * * */2"},
        "prune_captures": None,
        "check_heartbeat": None,
    },
}
