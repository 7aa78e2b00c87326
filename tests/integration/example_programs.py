"""Load the programs of examples/ from their files, because the folder is not a package."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(*path: str) -> ModuleType:
    file = EXAMPLES.joinpath(*path)
    spec = spec_from_file_location(f"example_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
