"""Kinematics, inverse and forward dynamics of one articulation, traced to straight-line code.

`host.HostDynamics` runs in float64 without Warp, `batch.BatchDynamics` on a Warp device; the solver's kernels
embed the same traced text.
"""
