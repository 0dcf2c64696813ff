"""The fuzzer: `python -m nabla.dev.testing.fuzz`. Random tables, views and changes; what is maintained against what is
recomputed. See docs/fuzzing.md."""
