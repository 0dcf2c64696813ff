"""The fuzzer: `python -m nabla.dev.testing.fuzz`. It makes random tables, views and changes, and compares maintained
views with recomputed ones. See docs/fuzzing.md."""
