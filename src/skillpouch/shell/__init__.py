"""ScriptedTool: many tools as the commands of one bash script."""
