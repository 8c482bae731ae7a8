"""Research runs: one experiment per round as a git branch, history, fork graph, reconciliation, packages, and the loop on top."""
