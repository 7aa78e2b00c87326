"""The checks of `jobforge doctor`: collect facts about an installation and derive findings."""
