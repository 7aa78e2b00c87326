"""Job arguments as JSON: signatures, types that survive JSON, JSON Schemas, sizes."""
