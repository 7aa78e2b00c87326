"""The program `jobforge`, also as `python -m jobforge`: signals and credentials come first."""

from jobforge.process import hardening, interrupts


def main() -> None:
    """The entry point of the commands `jobforge` and `jf`."""
    interrupts.install()
    hardening.harden()
    from jobforge.cli import main as run  # noqa: PLC0415 - Ctrl-C is heard while it is imported

    try:
        interrupts.raise_on_interrupt()
        run()
    finally:
        interrupts.finish()


if __name__ == "__main__":
    main()
