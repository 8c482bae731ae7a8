"""The figures of a run: each a table of plain values, and how it is drawn for paper. The report page draws the same tables."""
