"""`python -m nabla.testing.fuzz`."""

from nabla.testing.fuzz.command import main

if __name__ == "__main__":  # worker processes import this module too
    main()
