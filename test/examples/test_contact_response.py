"""Contact response through the library: the dense and the tree plan are two ways to one answer."""

import numpy as np
import pytest

from branch_mpc.errors import ProblemError
from branch_mpc.examples import kernels
from branch_mpc.examples.choices import Choice
from branch_mpc.examples.contact_response import ContactResponse, falling, main
from branch_mpc.examples.levenberg_marquardt import sample_configurations
from branch_mpc.oracle import contact
from branch_mpc.oracle import tree_kinematics as twin
from branch_mpc.robot.tree_library import load_tree
from branch_mpc.robot.tree_model import TreeModel

WORLDS = 3
PLANS = [Choice("dense", "serial"), Choice("tree", "serial")]


def _floating() -> TreeModel:
    return twin.random_tree(np.random.default_rng(21), 9, free=True, effectors=3)


def _solved(tree: TreeModel, choice: Choice, sweeps: int = 300) -> tuple[ContactResponse, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    response = ContactResponse(tree, WORLDS, choice=choice, sweeps=sweeps)
    q, velocity = sample_configurations(tree, WORLDS, rng, 0.3), falling(tree, WORLDS, rng)
    response.set_state(q, velocity)
    impulse, after = response.solve()
    return response, q.astype(np.float32).astype(float), impulse, after - velocity


@pytest.mark.parametrize("choice", PLANS, ids=lambda choice: choice.label)
@pytest.mark.parametrize("robot", ["iiwa14", "floating"])
def test_columns_are_those_of_the_mass_matrix(robot: str, choice: Choice) -> None:
    """M^-1 J^T by either plan equals the float64 solve with the joint-space mass matrix."""
    tree = _floating() if robot == "floating" else load_tree(robot)
    response, q, _, _ = _solved(tree, choice)
    columns = response.columns.numpy()
    for world in range(WORLDS):
        expected = contact.response_columns(tree, q[world]).T
        # Float32 with a mass matrix of condition 1e3 to 1e4.
        assert np.abs(columns[world] - expected).max() < 1e-3 * np.abs(expected).max()
        matrix = contact.contact_jacobian(tree, q[world]) @ expected.T
        assert np.abs(response.matrix()[world] - matrix).max() < 1e-3 * np.abs(matrix).max()


@pytest.mark.parametrize("choice", PLANS, ids=lambda choice: choice.label)
def test_impulses_obey_the_contact_laws(choice: Choice) -> None:
    """No contact sinks or is pulled, pushing contacts do not lift off, friction stays in its disc, and energy does not rise."""
    tree = _floating()
    response, q, impulse, change = _solved(tree, choice)
    before = response.velocity.numpy().astype(float)
    for world in range(WORLDS):
        jacobian, mass = contact.contact_jacobian(tree, q[world]), twin.mass_matrix(tree, q[world])
        velocity, normal = (jacobian @ (before[world] + change[world])).reshape(-1, 3), impulse[world, :, 2]
        # Velocities of 1 m/s in float32 through columns that are good to 1e-4, after 300 sweeps.
        assert (normal >= 0.0).all() and (velocity[:, 2] > -2e-3).all()
        assert np.abs(normal * velocity[:, 2]).max() < 2e-3 * max(1.0, normal.max())
        assert (np.hypot(*impulse[world, :, :2].T) <= response.friction * normal * (1 + 1e-5) + 1e-6).all()
        energy = [0.5 * v @ mass @ v for v in (before[world], before[world] + change[world])]
        assert energy[1] < energy[0] * (1 + 1e-4)


def test_both_plans_give_the_same_impulses() -> None:
    """What the contacts do does not depend on how the inertia was factored."""
    tree = _floating()
    dense, plain = (_solved(tree, choice)[2] for choice in PLANS)
    # Gauss-Seidel amplifies the rounding of the columns by the conditioning of the contact matrix.
    assert np.abs(dense - plain).max() < 1e-2 * np.abs(dense).max()


def test_wrong_contacts_are_refused() -> None:
    """Numbers that make no sense are refused with what to give."""
    tree = load_tree("indy7")
    with pytest.raises(ProblemError, match="friction"):
        ContactResponse(tree, 1, friction=-0.1)
    response = ContactResponse(tree, 2)
    with pytest.raises(ProblemError, match="expected"):
        response.set_state(np.zeros(5), np.zeros(6))
    with pytest.raises(ProblemError, match="not finite"):
        response.set_state(np.full(6, np.nan), np.zeros(6))


def test_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The module prints plan, schedule and impulses, and succeeds."""
    assert main(["--robot", "indy7", "--batch", "2", "--plan", "tree"]) == 0
    assert "normal impulse" in capsys.readouterr().out


def test_the_layout_of_a_gpu_gives_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances side by side, as the threads of a GPU want them, change where numbers live and nothing else."""

    def side_by_side(response: ContactResponse, count: int) -> kernels.Layout:
        layout = kernels.Layout()
        layout.stride, layout.pitch = response.instances, 1
        return layout

    plain = _solved(_floating(), PLANS[0], sweeps=20)
    monkeypatch.setattr(ContactResponse, "_layout", side_by_side)
    moved = _solved(_floating(), PLANS[0], sweeps=20)
    assert np.array_equal(plain[2], moved[2]) and np.array_equal(plain[3], moved[3])
    assert np.array_equal(plain[0].matrix(), moved[0].matrix())
