"""The scheduler: creates jobs when their time has come, and when events match a trigger."""
