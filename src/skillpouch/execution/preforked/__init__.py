"""The program that forks Python calls: run by path and confined, by any Python from 3.9 on."""
