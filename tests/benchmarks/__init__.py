"""Measurements, run by hand through make: none of them is a test."""
