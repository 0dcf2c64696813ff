"""`python -m nabla.dev.testing.isolation`."""

from nabla.dev.testing.isolation.command import main

if __name__ == "__main__":  # worker processes import this module too
    main()
