"""`make bench` and `python -m nabla.dev.bench`: the same as `nabla bench`."""

from nabla.cli.bench import app

if __name__ == "__main__":
    app()
