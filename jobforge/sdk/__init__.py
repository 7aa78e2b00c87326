"""What the code of an application uses: the app, definitions, jobs, workflows."""
