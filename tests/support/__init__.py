"""What tests of several tiers share. Nothing here needs pytest: benchmarks and crash tests use it too."""
