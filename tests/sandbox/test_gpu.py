"""What a confined program is shown of the graphics cards."""

from __future__ import annotations

from pathlib import Path

from autoqec.sandbox import gpu


def test_a_machine_without_a_card_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "sys" / "bus" / "pci").mkdir(parents=True)
    assert gpu.nodes(tmp_path) == []
    assert gpu.facts(tmp_path) == []


def test_nodes_and_facts_of_a_card_and_nothing_beside_them(tmp_path: Path) -> None:
    for name in (
        "dev/nvidia0",
        "dev/nvidiactl",
        "dev/nvidia-uvm",
        "dev/nvidia-uvm-tools",
        "dev/nvidia-caps/nvidia-cap1",
        "dev/sda",
        "dev/mem",
        "proc/driver/nvidia/version",
        "proc/1/environ",
        "sys/bus/pci/devices",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    shown = {str(path.relative_to(tmp_path)) for path in (*gpu.nodes(tmp_path), *gpu.facts(tmp_path))}
    assert shown == {
        "dev/nvidia0",
        "dev/nvidiactl",
        "dev/nvidia-uvm",
        "dev/nvidia-uvm-tools",
        "dev/nvidia-caps/nvidia-cap1",
        "proc/driver/nvidia",
        "sys/bus/pci",
    }
