"""How calls run inside this process: the loop thread, idle threads, timers, safe removal."""
