"""Variables of the environment that look like settings, and are none."""

from jobforge import config
from jobforge.cli import output


def warn_of_misspelt() -> None:
    """For what goes on for long: nobody would see that a setting is not what it should be."""
    for name, meant in config.misspelt().items():
        output.note(f"warning: {name} sets nothing; did you mean {meant}?")
