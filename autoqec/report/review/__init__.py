"""Looking back on a run: what it tried, gained, repeated and spent, and what that suggests."""

from autoqec.report.review.advice import Recommendation, recommendations
from autoqec.report.review.review import as_dict, review_run
from autoqec.report.review.summary import Review

__all__ = ["Recommendation", "Review", "as_dict", "recommendations", "review_run"]
