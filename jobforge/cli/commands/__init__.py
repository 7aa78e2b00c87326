"""One module for each group of commands; they do not import each other."""
