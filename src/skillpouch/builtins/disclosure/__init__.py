"""How an agent learns of many skills in steps: a catalogue, then one skill, then its files."""

from skillpouch.builtins.disclosure.skills_prompt import skills_prompt

__all__ = ["skills_prompt"]
