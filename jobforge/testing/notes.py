"""The notes that handlers write through their context during a test."""

from dataclasses import dataclass, field

from jobforge.errors import Json


@dataclass(slots=True)
class Notes:
    """Notes by kind, in the order of writing, each with the data of the attempt's record."""

    progress: list[dict[str, Json]] = field(default_factory=list)
    logs: list[dict[str, Json]] = field(default_factory=list)
    events: list[dict[str, Json]] = field(default_factory=list)

    def add(self, kind: str, data: dict[str, Json]) -> None:
        kinds = {"progress": self.progress, "log": self.logs, "event": self.events}
        kinds[kind].append(data)
