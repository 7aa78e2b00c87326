"""Request and response schemas, by area. Most responses use the frozen dataclasses of types/."""
