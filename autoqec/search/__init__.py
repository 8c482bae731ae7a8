"""The search for better configs: their space, what is feasible, the proposers that need no language model, the rules of analysis."""
