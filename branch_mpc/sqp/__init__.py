"""One SQP iteration and the batched solver: linearise, solve through branch, line search, damping."""
