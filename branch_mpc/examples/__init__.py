"""Small applications of `branch_mpc.branch`, runnable as modules: inverse_kinematics, trajectory_ik, contact_response."""
