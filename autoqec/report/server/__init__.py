"""`autoqec serve`: the pages of the runs in a folder, live, on this machine. It only reads."""
