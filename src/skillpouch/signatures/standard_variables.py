"""The environment variables that nobody has to grant."""

# Set by the shell, by the login, by a language's own tools or by Skillpouch itself.
_STANDARD = frozenset(
    {
        *("CDPATH", "COLUMNS", "DIRSTACK", "EDITOR", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS"),
        *("HOME", "HOSTNAME", "HOSTTYPE", "IFS", "LANG", "LANGUAGE", "LINENO", "LINES", "LOGNAME"),
        *("MACHTYPE", "MAPFILE", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "OSTYPE", "PATH", "PPID"),
        *("PIPESTATUS", "PS1", "PS2", "PS3", "PS4", "PWD", "RANDOM", "REPLY", "SECONDS", "SHELL"),
        *("SHELLOPTS", "SHLVL", "SRANDOM", "TERM", "TMPDIR", "UID", "USER", "USERNAME"),
        *("NODE_ENV", "TEMP", "TMP", "USERPROFILE"),
    }
)


def is_standard(name: str) -> bool:
    """Tell whether a variable is there, or is done without, on every machine."""
    return name in _STANDARD or name.startswith(("BASH", "LC_"))
