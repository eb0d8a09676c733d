"""The engine of the recipes: stages, steps, and the settings that they read."""
