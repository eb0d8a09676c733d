"""ESPnet's tasks (training, statistics, decoding) as functions that a command or a worker process can call."""
