"""ScriptedTool: many tools as commands of one bash script."""
