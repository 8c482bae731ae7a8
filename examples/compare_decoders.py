"""Classical decoders on the same shots, with paired intervals, and a figure."""

import sys

import autoqec

shots = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
found = autoqec.compare("surface_d5_depol", ["pymatching_correlated", "belief_matching"], shots=shots)
print(found)
found.plot("compare_decoders.png")
