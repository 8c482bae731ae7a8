"""Matching with weights per shot against rebuilding a PyMatching graph for each shot, on the same shots, one core.

    python benchmarks/bench_matching.py [--distances 3 5 7 9] [--repeats 3]

Rotated surface code, memory Z, rounds = d, all four Stim noise knobs at p. Two kinds of weights: log odds of the
priors times lognormal noise (all positive), and edge posteriors of 8 iterations of belief propagation, where
negative ones are flipped beforehand and most defects vanish. Times are CPU microseconds per shot, matching only.
The decoders take turns, piece by piece, so that a busy machine slows all of them alike; what counts is the ratio.
PyMatching is rebuilt in the fastest way it has, its compiled reader of check matrices without the checks round it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymatching
import scipy.sparse as sp
import stim
from pymatching import _cpp_pymatching

from autoqec.decoders.backends.belief_propagation import BeliefPropagation
from autoqec.decoders.backends.edge_weights import EdgeWeights
from autoqec.decoders.backends.per_shot_matching import PerShotMatcher
from autoqec.envs.dem import fault_matrices, matching_graph
from autoqec.envs.packing import unpack
from autoqec.envs.problem import BOUNDARY, MatchingGraph, log_odds

Work = Callable[[slice], object]


class Case(NamedTuple):
    circuit: stim.Circuit
    graph: MatchingGraph
    detectors: np.ndarray
    bp: BeliefPropagation


def surface_code(d: int, p: float, shots: int) -> Case:
    circuit = stim.Circuit.generated(
        "surface_code:rotated_memory_z",
        distance=d,
        rounds=d,
        after_clifford_depolarization=p,
        before_round_data_depolarization=p,
        before_measure_flip_probability=p,
        after_reset_flip_probability=p,
    )
    dem = circuit.detector_error_model(decompose_errors=True)
    faults = fault_matrices(dem)
    detectors = circuit.compile_detector_sampler(seed=1).sample(shots, bit_packed=True)
    bp = BeliefPropagation(faults.h, faults.priors, iterations=8)
    return Case(circuit, matching_graph(dem, faults, where=f"d={d}"), detectors, bp)


def perturbed_priors(case: Case) -> np.ndarray:
    noise = np.random.default_rng(0).lognormal(0.0, 0.3, (len(case.detectors), case.graph.n_edges))
    return (log_odds(case.graph.priors) * noise).astype(np.float32)


def bp_posteriors(case: Case) -> np.ndarray:
    return EdgeWeights(case.graph)(case.bp.posteriors(case.detectors).log_odds)


class Rebuild:
    """PyMatching with a graph of its own for every shot."""

    def __init__(self, graph: MatchingGraph, n_detectors: int) -> None:
        e = np.arange(graph.n_edges)
        inside = graph.ends[:, 1] != BOUNDARY
        rows = np.concatenate([graph.ends[:, 0], graph.ends[inside, 1]])
        columns = np.concatenate([e, e[inside]])
        ones = np.ones(len(rows), dtype=np.uint8)
        self._h = sp.csc_matrix((ones, (rows, columns)), shape=(n_detectors, graph.n_edges))
        self._observables = sp.csc_matrix(graph.observables.T.astype(np.uint8))
        self._unknown = np.full(graph.n_edges, -1.0)

    def decode(self, syndromes: np.ndarray, weights: np.ndarray) -> list[int]:
        answers = []
        for syndrome, w in zip(syndromes, weights.astype(np.float64), strict=True):
            built = _cpp_pymatching.sparse_column_check_matrix_to_matching_graph(
                self._h, w, self._unknown, "smallest-weight", False, 1, None, None, self._observables
            )
            answers.append(int(built.decode(np.flatnonzero(syndrome))[0][0]))
        return answers


def take_turns(pieces: list[slice], repeats: int, works: dict[str, tuple[Work, int]]) -> dict[str, float]:
    """Microseconds per shot of each (work, shots of a piece that it does); the first call is not counted."""
    spent = dict.fromkeys(works, 0.0)
    done = dict.fromkeys(works, 0)
    for work, _ in works.values():
        work(slice(0, 2))
    for _ in range(repeats):
        for piece in pieces:
            for name, (work, shots) in works.items():
                part = slice(piece.start, min(piece.start + shots, piece.stop))
                before = time.thread_time()
                work(part)
                spent[name] += time.thread_time() - before
                done[name] += part.stop - part.start
    return {name: 1e6 * spent[name] / done[name] for name in works}


def defects_left(case: Case, weights: np.ndarray) -> float:
    """Defects per shot after the negative edges are flipped."""
    n = case.circuit.num_detectors
    flipped = (weights < 0).astype(np.uint8)
    ends = np.where(case.graph.ends == BOUNDARY, n, case.graph.ends)
    left = np.pad(unpack(case.detectors, n), ((0, 0), (0, 1)))
    for side in (0, 1):
        np.bitwise_xor.at(left.T, ends[:, side], flipped.T)
    return float(left[:, :n].sum(axis=1).mean())


def row(d: int, label: str, case: Case, weights: np.ndarray, repeats: int) -> None:
    shots, n = len(case.detectors), case.circuit.num_detectors
    matcher = PerShotMatcher.from_graph(case.graph, n)
    rebuild = Rebuild(case.graph, n)
    syndromes = unpack(case.detectors, n)
    fixed = pymatching.Matching.from_detector_error_model(
        case.circuit.detector_error_model(decompose_errors=True)
    )
    no_defects, positive = np.zeros_like(case.detectors), np.abs(weights)
    few = 32
    pieces = [slice(start, start + 512) for start in range(0, shots, 512)]
    times = take_turns(
        pieces,
        repeats,
        {
            "ours": (lambda part: matcher.decode(case.detectors[part], weights[part], threads=1), 512),
            "classes": (
                lambda part: matcher.logical_classes(case.detectors[part], weights[part], threads=1),
                few,
            ),
            "quiet": (lambda part: matcher.decode(no_defects[part], positive[part], threads=1), 512),
            "rebuild": (lambda part: rebuild.decode(syndromes[part], weights[part]), few),
            "fixed": (lambda part: fixed.decode_batch(case.detectors[part], bit_packed_shots=True), 512),
        },
    )
    ours = matcher.decode(case.detectors, weights)[:, 0]
    same = np.mean(ours[:200] == rebuild.decode(syndromes[:200], weights[:200]))
    print(
        f"| {d} | {label} | {defects_left(case, weights):.1f} | {times['ours']:.2f} | {1e6 / times['ours']:,.0f} "
        f"| {times['rebuild']:.0f} | **{times['rebuild'] / times['ours']:.0f}** | {times['fixed']:.2f} "
        f"| {times['quiet']:.2f} | {times['classes']:.1f} | {same:.3f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--distances", type=int, nargs="+", default=[3, 5, 7, 9])
    parser.add_argument("--p", type=float, default=0.005)
    parser.add_argument("--shots", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(
        "| d | weights | defects left | ours us | ours shots/s | rebuild us | rebuild / ours | fixed graph us "
        "| no defects us | both classes us | same answer |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for d in options.distances:
        case = surface_code(d, options.p, options.shots)
        row(d, "perturbed priors", case, perturbed_priors(case), options.repeats)
        row(d, "BP-8 posteriors", case, bp_posteriors(case), options.repeats)
    print(
        "\nfixed graph: PyMatching with one set of weights for all shots, the speed of the same algorithm in C++ "
        "when nothing is reweighted.\nno defects: what reading and checking the weights of a shot costs; "
        "beyond it the time goes into scans of the neighbours of reached detectors\nand into the event queue, and "
        "grows with the defects left."
    )


if __name__ == "__main__":
    main()
