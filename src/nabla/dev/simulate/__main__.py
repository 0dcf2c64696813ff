"""`python -m nabla.dev.simulate`."""

from nabla.dev.simulate.command import main

if __name__ == "__main__":  # worker processes import this module too
    main()
