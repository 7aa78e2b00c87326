"""The program `jobforge`, also `python -m jobforge`: sets up signals and credentials first."""

from jobforge.process import hardening, interrupts


def main() -> None:
    """Run the commands `jobforge` and `jf`."""
    interrupts.install()
    hardening.harden()
    from jobforge.cli import main as run  # noqa: PLC0415 - Ctrl-C must work during the import

    try:
        interrupts.raise_on_interrupt()
        run()
    finally:
        interrupts.finish()


if __name__ == "__main__":
    main()
