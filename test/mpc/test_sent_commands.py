"""The replayed command history."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from branch_mpc.mpc.sent_commands import SEGMENTS, SentCommands


def filled(history, begin, end):
    """Segments of a window as (duration, first torque) pairs."""
    durations, torques = np.full(SEGMENTS, 9.0), np.full((SEGMENTS, 2), 9.0)
    history.fill(begin, end, durations, torques)
    return [(round(float(d), 9), float(t[0])) for d, t in zip(durations, torques, strict=True) if d > 0]


def make(*entries):
    """A history that starts with torque 0 and then the given (time, torque) entries."""
    history = SentCommands(2)
    history.clear(np.zeros(2))
    for time, torque in entries:
        history.add(time, np.full(2, torque))
    return history


def test_window_is_cut_at_its_ends():
    """A window inside two commands takes the tail of the first and the head of the second."""
    history = make((0.0, 1.0), (0.01, 2.0), (0.02, 3.0))
    assert filled(history, 0.004, 0.013) == [(0.006, 1.0), (0.003, 2.0)]


def test_torque_before_the_first_command_is_the_one_given_at_reset():
    """Before anything was sent, the torque of `clear` acts."""
    assert filled(make((0.0, 1.0)), -0.01, 0.005) == [(0.01, 0.0), (0.005, 1.0)]


def test_last_command_holds():
    """The newest torque acts until further notice."""
    assert filled(make((0.0, 1.0)), 0.5, 0.7) == [(0.2, 1.0)]


def test_empty_window_has_no_segments():
    """A window that ends where it begins, or before, replays nothing."""
    history = make((0.0, 1.0))
    assert filled(history, 0.3, 0.3) == []
    assert filled(history, 0.3, 0.2) == []


def test_command_for_the_same_time_replaces():
    """A command that takes effect when or before an earlier-sent one does replaces it."""
    assert filled(make((0.0, 1.0), (0.02, 2.0), (0.01, 3.0)), 0.0, 0.03) == [(0.01, 1.0), (0.02, 3.0)]


@given(st.lists(st.floats(1e-4, 0.02), min_size=1, max_size=30), st.floats(0.0, 0.2), st.floats(0.0, 0.3))
def test_durations_add_up_to_the_window(gaps, begin, length):
    """However many commands a window holds, its segments cover it: the oldest merge."""
    history = make(*((time, 1.0) for time in np.cumsum(gaps)))
    durations, torques = np.zeros(SEGMENTS), np.zeros((SEGMENTS, 2))
    history.fill(begin, begin + length, durations, torques)
    assert np.isclose(durations.sum(), length, atol=1e-9)
