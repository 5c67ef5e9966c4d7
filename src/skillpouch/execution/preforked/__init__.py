"""The program that forks a child per Python call: confined, run by path, on Python 3.9 or later."""
