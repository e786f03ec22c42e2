"""The parts of `penstock.testing`: a scripted upstream, recorded exchanges, and the pytest plugin."""
