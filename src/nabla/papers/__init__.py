"""The derivations as the papers published them: shown by `explain`, and a second opinion for tests."""
