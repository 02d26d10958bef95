"""Another form of a waiting gang: order of sets, preferences, pins, minimums."""
