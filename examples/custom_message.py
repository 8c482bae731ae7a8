"""A message function of your own in a graph network. It is code, so it trains, is verified and decodes in the sandbox only."""

import sys

import autoqec

shots = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
config = {
    "type": "gnn",
    "output_mode": "soft_priors",
    "gnn": {
        "layers": 1,
        "hidden_dim": 8,
        "message_fn": {
            "type": "custom",
            "code": "def message(x_src, x_dst, e_ij, params):\n    return torch.tanh(params.W(x_src) + e_ij)\n",
            "params_declared": {"W": "Linear(hidden, hidden)"},
        },
    },
    "training": {"loss": "backend_gap", "epochs": 1, "batch_size": 256, "learning_rate": 0.003},
}
trained = autoqec.train("surface_d3_depol", config, "runs/custom_message")
print(autoqec.compare("surface_d3_depol", [trained.predecoder(name="custom message")], p=0.01, shots=shots))
