"""The references: closed forms, continuity, velocities and refusal of bad numbers."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from branch_mpc.errors import TargetError
from branch_mpc.optimal_control.reference import Approach, Figure8, Hold, Lissajous, Reference, figure8_for, window

TIMES = np.linspace(0.0, 12.0, 97)
START = np.array([0.3, -0.2, 0.9])


def finite_difference(reference: Reference, time: np.ndarray) -> np.ndarray:
    """Central differences with 1e-5 s: about 1e-9 m/s of truncation and rounding on these curves."""
    return (reference.position(time + 1e-5) - reference.position(time - 1e-5)) / 2e-5


def test_figure8_is_gatos_formula() -> None:
    """The figure is R_z(45 deg) [0.4 sin s, 0.5, 0.6 + 0.4 sin(2 s)/2 + 0.2], written out (rounding only)."""
    s, c = 2.0 * math.pi * TIMES / 6.0, math.sqrt(0.5)
    x, y = 0.4 * np.sin(s), np.full_like(s, 0.5)
    expected = np.stack([c * x - c * y, c * x + c * y, 0.6 + 0.4 * np.sin(2.0 * s) / 2.0 + 0.2], axis=1)
    np.testing.assert_allclose(Figure8(period=6.0).position(TIMES), expected, atol=1e-14)


def test_figure8_closes_after_a_period() -> None:
    """One period later the tool is where it was, at any period."""
    figure = Figure8(period=3.7)
    np.testing.assert_allclose(figure.position(TIMES + 3.7), figure.position(TIMES), atol=1e-13)


@pytest.mark.parametrize("reference", [Figure8(), figure8_for("iiwa14", START), Approach(START, Figure8()), Hold(START)])
def test_velocity_is_the_derivative_of_position(reference: Reference) -> None:
    """Velocities agree with central differences to 1e-8 m/s, away from the end of the approach."""
    time = TIMES[1:] + 0.01
    np.testing.assert_allclose(reference.velocity(time), finite_difference(reference, time), atol=1e-8)


def test_approach_starts_at_the_tool_at_rest_and_meets_the_figure() -> None:
    """The approach begins at the start point without velocity and hands over to the figure without a jump."""
    figure = Figure8()
    approach = Approach(START, figure, duration=2.0)
    np.testing.assert_array_equal(approach.position(np.zeros(1))[0], START)
    np.testing.assert_array_equal(approach.velocity(np.zeros(1))[0], np.zeros(3))
    before, after = approach.position(np.array([2.0 - 1e-9, 2.0]))
    np.testing.assert_allclose(before, after, atol=1e-12)
    np.testing.assert_array_equal(approach.position(np.array([2.0, 3.5])), figure.position(np.array([0.0, 1.5])))


def test_approach_is_monotone() -> None:
    """The distance to the first point of the figure never grows during the approach."""
    approach = Approach(START, Figure8(), duration=1.3)
    distance = np.linalg.norm(approach.position(np.linspace(0.0, 1.3, 200)) - Figure8().position(np.zeros(1)), axis=1)
    assert (np.diff(distance) <= 1e-15).all()


def test_window_samples_the_horizon() -> None:
    """Row k of the window is the reference at start + k step."""
    targets = window(Figure8(), 1.25, 32, 0.01)
    assert targets.shape == (32, 3)
    np.testing.assert_allclose(targets[7], Figure8().position(np.array([1.32]))[0], atol=1e-15)


def test_other_robots_draw_about_their_tool() -> None:
    """A robot without a figure of its own draws the small loop about its tool, smaller when its reach is short."""
    loop = figure8_for("somebody's arm", START, reach=0.4)
    np.testing.assert_allclose(loop.position(np.zeros(1))[0], START, atol=1e-15)
    assert loop.first[0] == pytest.approx(0.075)
    assert figure8_for("indy7", START) == Figure8()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Figure8(period=math.nan),
        lambda: Figure8(period=-1.0),
        lambda: Lissajous(center=(0.0, math.inf, 0.0)),
        lambda: Hold(np.array([0.0, math.nan, 0.0])),
        lambda: Hold(np.zeros(2)),
        lambda: Approach(np.array([math.nan, 0.0, 0.0]), Figure8()),
        lambda: Approach(START, Figure8(), duration=0.0),
        lambda: figure8_for("somebody's arm"),
        lambda: figure8_for("somebody's arm", np.full(3, math.nan)),
    ],
)
def test_bad_numbers_are_refused(make: Callable[[], object]) -> None:
    """A target that is not finite, or a time that is not positive, is refused when it is made."""
    with pytest.raises(TargetError):
        make()
