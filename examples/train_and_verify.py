"""One predecoder from its config to a verdict: train, compare with all baselines, verify on fresh shots in the sandbox."""

import sys

import autoqec

shots = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
config = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 5, "weight_sharing": "per_layer"},
    "training": {"loss": "backend_gap", "epochs": 1, "batch_size": 256, "learning_rate": 0.01},
}
trained = autoqec.train("surface_d3_depol", config, "runs/example")
print(f"validation: LER {trained.metrics.ler_predecoder:.4g} after {trained.metrics.ler_plain_classical:.4g}")
print(autoqec.compare("surface_d3_depol", [trained.predecoder(), "belief_matching"], p=0.01, shots=shots))
report = autoqec.verify(trained, shots=shots, cap=2 * shots)
print(report.verdict, "-", report.notes)
