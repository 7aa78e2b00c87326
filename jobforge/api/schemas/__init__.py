"""What requests may say, by area. Answers are the frozen data of job.py and control.py."""
