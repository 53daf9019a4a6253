"""mpc_node with the planner without kernels, as a process."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fake_planner import FakePlanner

from branch_mpc.ros.mpc_node import MpcNode
from branch_mpc.ros.process import run

if __name__ == "__main__":
    sys.exit(run("mpc_node", None, lambda stop: MpcNode(stop, planner=FakePlanner)))
