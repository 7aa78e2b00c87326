"""What requests may say, by area. Answers are the frozen data of types/."""
