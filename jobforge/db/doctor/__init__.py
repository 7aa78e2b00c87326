"""The checks of `jobforge doctor`: facts of an installation, and findings from them."""
