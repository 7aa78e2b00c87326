"""`python -m jobforge` is the command `jobforge`."""

from jobforge.cli import main

if __name__ == "__main__":
    main()
