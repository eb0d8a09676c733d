"""Audio files of one's own to text, with any model: words with times, subtitles, a page
that plays the audio.
"""
