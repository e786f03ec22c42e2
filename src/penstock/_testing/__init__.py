"""For tests of programs that talk to models: an upstream that says what you script, with any fault you like."""
