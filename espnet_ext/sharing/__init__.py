"""Share a trained model: pack it into one archive, upload it to a hub, and load it
elsewhere.
"""
