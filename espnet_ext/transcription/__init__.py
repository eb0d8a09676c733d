"""Transcribe one's own audio files with any model.

There are words with times, subtitles, and a page that plays the audio.
"""
