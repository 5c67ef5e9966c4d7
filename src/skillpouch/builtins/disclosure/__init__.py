"""How an agent learns of many skills step by step: a catalogue, then one skill, then files."""

from skillpouch.builtins.disclosure.skills_prompt import skills_prompt

__all__ = ["skills_prompt"]
