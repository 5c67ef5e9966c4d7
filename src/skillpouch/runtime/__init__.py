"""How this process runs calls: threads, timers, safe removal; which optional packages it has."""
