"""A predecoder in sinter, and LER over p at two distances."""

import sys

import sinter

import autoqec

shots = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
config = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 5},
    "training": {"epochs": 0},  # belief propagation as it is; raise it to learn
}


def main() -> None:
    finds, tasks = {}, []
    for distance in (3, 5):
        env = autoqec.load_env(f"surface_d{distance}_depol")
        find = autoqec.train(env, config, f"runs/threshold_d{distance}").predecoder(
            name=f"predecoder_d{distance}"
        )
        finds[find.name] = find.as_sinter()
        for p in env.spec.noise.p:
            for decoder in (find.name, "pymatching"):
                circuit, metadata = env.circuit(p), {"d": distance, "p": p}
                tasks.append(sinter.Task(circuit=circuit, decoder=decoder, json_metadata=metadata))
    stats = sinter.collect(num_workers=2, tasks=tasks, max_shots=shots, custom_decoders=finds)
    for stat in sorted(
        stats, key=lambda stat: (stat.json_metadata["d"], stat.json_metadata["p"], stat.decoder)
    ):
        meta = stat.json_metadata
        print(f"d = {meta['d']}  p = {meta['p']:<6g} {stat.decoder:<15} {stat.errors:>6} of {stat.shots}")

    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    axes = figure.subplots()
    sinter.plot_error_rate(
        ax=axes,
        stats=stats,
        x_func=lambda stat: stat.json_metadata["p"],
        group_func=lambda stat: f"d = {stat.json_metadata['d']}, {stat.decoder.split('_')[0]}",
    )
    axes.set(xscale="log", yscale="log", xlabel="physical error rate p", ylabel="logical error rate per shot")
    axes.legend()
    figure.savefig("sinter_threshold.png")


if __name__ == "__main__":  # sinter starts processes
    main()
