"""`python -m nabla.dev.logic_tests`."""

from nabla.dev.logic_tests.command import main

if __name__ == "__main__":
    main()
