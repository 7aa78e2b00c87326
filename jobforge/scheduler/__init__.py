"""Creates jobs for due schedules and for events that match a trigger; runs maintenance."""
