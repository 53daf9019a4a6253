"""Receding horizon: warm start by elapsed time, delay, hypotheses, launch policy; one graph per tick."""
