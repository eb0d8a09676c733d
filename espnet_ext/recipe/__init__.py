"""The engine that runs recipes: stages, steps and settings."""
