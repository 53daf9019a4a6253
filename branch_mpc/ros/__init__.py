"""Nodes, parameters and messages. Only this room imports rclpy; `settings`, `joint_map` and the loop do without it."""
