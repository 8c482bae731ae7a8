"""What went wrong in a round or a run, from the files that it left; nothing is changed and nothing is run."""

from autoqec.report.diagnose.finding import HEALTHY, Change, Diagnosis, Evidence, Finding, Patch
from autoqec.report.diagnose.round import diagnose_round
from autoqec.report.diagnose.run import RunDiagnosis, diagnose_run, is_run

__all__ = [
    "HEALTHY",
    "Change",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Patch",
    "RunDiagnosis",
    "diagnose_round",
    "diagnose_run",
    "is_run",
]
