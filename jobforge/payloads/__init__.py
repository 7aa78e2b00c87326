"""Arguments of jobs as JSON: signatures, types that survive JSON, schemas, sizes."""
