"""The research loop: from a hypothesis to a verified Pareto front, round by round."""
