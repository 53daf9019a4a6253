"""Model-predictive control of torque-controlled robot arms on ROS 2."""

from pkgutil import extend_path

# The message classes are generated at build time. Imported from a source tree,
# this package finds them in the installed copy of itself.
__path__ = extend_path(__path__, __name__)
__version__ = "0.1.0"
