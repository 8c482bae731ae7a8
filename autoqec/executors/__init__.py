"""Where work runs: on processes of this machine, or on those of a Ray cluster."""
