"""The adversarial corpus: cheats that must be rejected, and honest controls that must not be."""
