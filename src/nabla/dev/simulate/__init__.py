"""Deterministic simulation: storage and commits on a machine whose scheduler, clock and faults are chosen by a seed."""
