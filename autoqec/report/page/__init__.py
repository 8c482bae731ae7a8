"""The report page: a run as one HTML file that needs nothing else."""
