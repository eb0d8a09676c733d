"""Share a trained model: pack it, upload it to a hub, and load it elsewhere."""
