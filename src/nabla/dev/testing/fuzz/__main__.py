"""`python -m nabla.dev.testing.fuzz`."""

from nabla.dev.testing.fuzz.command import main

if __name__ == "__main__":  # worker processes import this module too
    main()
