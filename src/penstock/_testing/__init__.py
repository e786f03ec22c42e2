"""The parts of `penstock.testing`: a scripted upstream, its replies, and encoders for every protocol."""
