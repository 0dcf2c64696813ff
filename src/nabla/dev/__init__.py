"""For the developers of Nabla: tests' helpers, fuzzers, benchmarks and the demo. Users need not load any of it."""
