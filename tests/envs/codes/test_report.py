from __future__ import annotations

import json

from autoqec.envs.codes.css import classical_code, css_code
from autoqec.envs.codes.families import build_code
from autoqec.envs.codes.report import code_report


def test_report_of_a_published_code() -> None:
    report = code_report(build_code("bb72"))
    assert (report.n, report.k, report.distance_bounds) == (72, 12, {"x": 6, "z": 6})
    assert report.matrices["Hx"].check_weights == (6, 6)
    assert report.matrices["Hz"].bit_degrees == (3, 3)
    assert report.schedule == "published"
    assert report.unprotected == ()


def test_report_of_a_classical_code_is_plain_data() -> None:
    report = code_report(build_code("repetition?distance=5"))
    assert report.distance_bounds == {"bit": 5}
    assert report.matrices["H"].checks == 4
    assert json.loads(json.dumps(report.to_dict()))["matrices"]["H"]["bit_degrees"] == [1, 2]


def test_isolated_checks_and_bits_are_reported() -> None:
    report = code_report(classical_code("odd", [[1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 1, 0]]))
    assert report.matrices["H"].isolated_checks == (1,)
    assert report.matrices["H"].isolated_bits == (3,)
    assert report.matrices["H"].check_weights == (2, 2)
    assert report.unprotected == (3,)
    assert report.distance_bounds == {"bit": 1}


def test_a_qubit_is_unprotected_only_if_no_check_of_either_type_has_it() -> None:
    report = code_report(css_code("odd", [[1, 1, 0, 0]], [[1, 1, 1, 0]]))
    assert report.matrices["Hx"].isolated_bits == (2, 3)
    assert report.unprotected == (3,)
    assert report.schedule == "colouring"
