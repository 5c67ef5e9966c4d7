# The shell of a skill: functions by which its commands find what the skill brings. The programs
# python, uv, npx … of the shell are calls of `skillpouch_main`. A word that names a file of the
# workspace always means that file.

# Print the file of the skill that a word means; fail if it means something else, or nothing.
skillpouch_found() {
  local word=$1 inside each
  case $word in '' | -* | *[!-A-Za-z0-9_./+@%,=:~\ ]*) return 1 ;; esac
  [ ! -e "$word" ] || return 1
  inside=${word#./}
  for each in "$SKILLPOUCH_FOLDER" "${SKILL_NAME##*:}"; do
    case /$inside/ in *"/$each/"*)
      inside=/$inside
      inside=${inside##*"/$each"}
      inside=${inside#/}
      break
      ;;
    esac
  done
  for each in "$inside" "${@:2}"; do
    case $each in /*) continue ;; esac
    if [ -e "$SKILL_BASE_DIR/$each" ]; then
      printf '%s' "$SKILL_BASE_DIR${each:+/$each}"
      return
    fi
  done
  skillpouch_elsewhere "$word" $#
}

# Print the file of the skill at the end of a path where others install skills (.lamp/skill/x/y.py),
# if nothing of that path is here. Of a script, the folder may have any name, else a hidden one.
skillpouch_elsewhere() {
  local base=. inside=${1#./}
  case $1 in "$HOME"/*) base=$HOME inside=${1#"$HOME"/} ;; esac
  case $2:$inside in *:/* | *..*) return 1 ;; 1:.*/*/* | [!1]:*/*/*) ;; *) return 1 ;; esac
  [ ! -e "$base/${inside%%/*}" ] || return 1
  while inside=${inside#*/}; do
    case $inside in ?*/?*) ;; *) return 1 ;; esac
    if [ -f "$SKILL_BASE_DIR/$inside" ]; then
      printf '%s' "$SKILL_BASE_DIR/$inside"
      return
    fi
  done
}

# Print a word as the program is to get it: a path below the skill, or below the workspace for who
# went into the folder of the skill; any other word unchanged.
skillpouch_word() {
  local flag='' value=$1 path
  case $value in -*=*) flag=${value%%=*}= value=${value#*=} ;; esac
  case $value in
    */*) if path=$(skillpouch_found "$value"); then value=$path; fi ;;
  esac
  case $PWD/ in "$SKILL_BASE_DIR"/*)
    case $value in '' | -* | /*) ;; *)
      if [ ! -e "$value" ] && [ -e "$SKILLPOUCH_WORKDIR/$value" ]; then
        value=$SKILLPOUCH_WORKDIR/$value
      fi
      ;;
    esac
    ;;
  esac
  printf '%s' "$flag$value"
}

skillpouch_refuse() {
  printf '%s: %s\n' "$1" "$2" >&2
  exit "${3:-127}"
}

# Run an interpreter: `skillpouch_interpret NAME PROGRAM WORD…`; the first word that is no option is
# its script. After an option in `ends` there is none, one in `takes` has a value.
skillpouch_interpret() {
  local program=$2 words=() path ends takes
  case $1 in
    python*) ends=' -c -m - -V --version ' takes=' -W -X --check-hash-based-pycs ' ;;
    bash | sh | zsh) ends=' -c -s - --version ' takes=' -o +o -O +O --rcfile --init-file ' ;;
    ruby | perl) ends=' -e -E - ' takes=' -I -r ' ;;
    *) ends=' -e -p --eval --print - ' takes=' -r --require --import --loader --tsconfig -P ' ;;
  esac
  case $1 in bun | deno)
    if [ "${3-}" = run ]; then
      words=(run)
      shift
    fi
    ;;
  esac
  shift 2
  while [ $# -gt 0 ]; do
    case $ends in *" $1 "*) exec "$program" "${words[@]}" "$@" ;; esac
    case $1 in
      [-+]*)
        words+=("$1")
        case $takes in *" $1 "*)
          words+=("${@:2:1}")
          [ $# -eq 1 ] || shift
          ;;
        esac
        shift
        ;;
      *)
        path=$(skillpouch_found "$1" "scripts/${1#./}") || path=$1
        words+=("$path")
        shift
        while [ $# -gt 0 ]; do
          path=$(skillpouch_word "$1" && printf .)
          words+=("${path%.}")
          shift
        done
        ;;
    esac
  done
  exec "$program" "${words[@]}"
}

# Run a file of the skill by its first line, or by the end of its name; it need not be executable.
skillpouch_run() {
  local file=$1 first='' program
  shift
  IFS= read -r first <"$file" 2>/dev/null || [ -n "$first" ] || first=''
  case $first in
    '#!'*uv*run*) program='uv run' ;;
    '#!'*python*) program=python3 ;;
    '#!'*bash*) program=bash ;;
    '#!'*zsh*) program=zsh ;;
    '#!'*tsx* | '#!'*ts-node*) program=tsx ;;
    '#!'*node*) program=node ;;
    '#!'*ruby*) program=ruby ;;
    '#!'*perl*) program=perl ;;
    '#!'*sh) program=sh ;;
    *)
      case $file in
        *.py) program=python3 ;;
        *.sh | *.bash) program=bash ;;
        *.js | *.mjs | *.cjs) program=node ;;
        *.ts | *.mts | *.tsx) program=tsx ;;
        *.rb) program=ruby ;;
        *.pl) program=perl ;;
        *) program='' ;;
      esac
      ;;
  esac
  # `command`: the path of the file may be the name of a function that would lead here again.
  if [ -n "$program" ]; then $program "$file" "$@"; else command "$file" "$@"; fi
}

# Print how many of the words are options, with the values of those in `takes` and the `--` that may
# end them: `skillpouch_options TAKES ENDS WORD…`; before an option in `ends` they end, too.
skillpouch_options() {
  local takes=$1 ends=$2 count=0 word
  shift 2
  while [ $count -lt $# ]; do
    word=${*:count+1:1}
    case $word in -?*) ;; *) break ;; esac
    case $ends in *" $word "*) break ;; esac
    count=$((count + 1))
    [ "$word" != -- ] || break
    case $takes in *" $word "*) [ $count -eq $# ] || count=$((count + 1)) ;; esac
  done
  printf '%s' $count
}

# `uv run`: its options are about what to install, and what is granted is there already.
skillpouch_uv_run() {
  local takes=' --with --with-requirements --with-editable -w --python -p --project --package '
  takes+='--directory --extra --group --env-file --index --index-url --cache-dir '
  shift "$(skillpouch_options "$takes" ' -m --module ' "$@")"
  case ${1-} in -m | --module) exec python3 -m "${@:2}" ;; esac
  [ $# -gt 0 ] || skillpouch_refuse uv 'there is nothing to run' 2
  case $1 in
    python | python3 | python3.*) exec python3 "${@:2}" ;;
    *.py | -) exec python3 "$@" ;;
  esac
  if type -P -- "$1" >/dev/null; then exec "$@"; fi
  skillpouch_refuse uv "$1 is not installed: nothing is fetched here"
}

# `npx`, `uvx` and their like: run what is installed, in the workspace or by a grant.
skillpouch_fetching_runner() {
  local runner=$1 prefix=$2 name folder
  shift 2
  shift "$(skillpouch_options ' -p --package --from --with --python ' '' "$@")"
  [ $# -gt 0 ] || skillpouch_refuse "$runner" 'there is nothing to run' 2
  name=${1##*/}
  [ "${1:0:1}" = @ ] || name=$1
  name=${name%%@*}
  for folder in node_modules/.bin "$SKILL_BASE_DIR/node_modules/.bin"; do
    if [ "$prefix" = npm: ] && [ -x "$folder/$name" ]; then exec "$folder/$name" "${@:2}"; fi
  done
  case $name in */*) ;; *) if type -P -- "$name" >/dev/null; then exec "$name" "${@:2}"; fi ;; esac
  skillpouch_refuse "$runner" "$1 is not installed: nothing is fetched here"
}

# Print the program of a name that is installed by a grant or on this machine, not one of these here.
skillpouch_real() {
  local IFS=: each
  for each in $PATH; do
    case $each in */skill-shell/bin) continue ;; esac
    if [ -x "$each/$1" ]; then
      printf '%s' "$each/$1"
      return
    fi
  done
  return 1
}

# TypeScript: by the program itself if it is installed, else by a Node that takes out the types.
skillpouch_typescript() {
  local name=$1 real version
  real=$(skillpouch_real "$name") || real=$2
  shift 2
  [ -z "$real" ] || skillpouch_interpret "$name" "$real" "$@"
  version=$(node --version 2>/dev/null) || skillpouch_refuse "$name" 'node is not installed'
  version=${version#v}
  if [ "${version%%.*}" -ge 23 ] || { [ "${version%%.*}" -eq 22 ] && [ "$(cut -d. -f2 <<<"$version")" -ge 6 ]; }; then
    exec node --experimental-strip-types --no-warnings "$@"
  fi
  skillpouch_refuse "$name" "it is not installed: nothing is fetched here"
}

# `pip install`: what is there is there; the rest has to be granted.
skillpouch_pip() {
  local name lacking=0
  case ${1-} in install | i) shift ;; *) exec python3 -m pip "$@" ;; esac
  while [ $# -gt 0 ]; do
    case $1 in
      -r | --requirement | -c | --constraint | -t | --target | -i | --index-url | -f)
        shift
        [ $# -eq 0 ] || shift
        continue
        ;;
      -* | . | ./* | /*)
        shift
        continue
        ;;
    esac
    name=${1%%[][<>=!~; @]*}
    shift
    if python3 -c 'import importlib.metadata as m, sys; m.version(sys.argv[1])' "$name" 2>/dev/null; then
      printf 'Requirement already satisfied: %s\n' "$name"
    else
      printf 'pip: %s is not installed: nothing is fetched here\n' "$name" >&2
      lacking=1
    fi
  done
  exit $lacking
}

skillpouch_main() {
  local name=$1 real=$2
  shift 2
  case $name in
    uv)
      case ${1-} in
        run) skillpouch_uv_run "${@:2}" ;;
        pip) skillpouch_pip "${@:2}" ;;
        tool | x) skillpouch_fetching_runner uvx '' "${@:3}" ;;
        --version | -V) printf 'uv (of the shell of a skill)\n' ;;
        *) skillpouch_refuse uv "'uv ${1-}' is not for the shell of a skill: nothing is fetched here" 2 ;;
      esac
      ;;
    uvx | pipx) [ "${1-}" != run ] || shift; skillpouch_fetching_runner "$name" '' "$@" ;;
    npx | bunx) skillpouch_fetching_runner "$name" npm: "$@" ;;
    pip | pip3) skillpouch_pip "$@" ;;
    tsx | ts-node) skillpouch_typescript "$name" "$real" "$@" ;;
    python | python3) skillpouch_interpret "$name" "${SKILLPOUCH_PYTHON:-$real}" "$@" ;;
    *) skillpouch_interpret "$name" "$real" "$@" ;;
  esac
}

# For the shell itself: another path of the skill's folder, in the call's own temporary folder.
skillpouch_place() {
  local base=${1%/*}
  case $1 in /*) ;; *) return ;; esac
  [ -e "$1" ] || { mkdir -p -- "$base" && ln -s -- "$SKILL_BASE_DIR" "$1"; } 2>/dev/null
}

# A file of the skill that a command runs by a path; the workspace's own file comes first. What the
# shell or a program of the machine is called stays that: `rm` is never a file of the skill.
skillpouch_name() {
  local test=-e
  case $1 in
    /*) test=-x ;;
    */*) ;;
    *) ! type -t -- "$1" >/dev/null || return 0 ;;
  esac
  eval "function $1 { if [ $test '$1' ]; then command '$1' \"\$@\"; else
    skillpouch_run \"\$SKILL_BASE_DIR/$2\" \"\$@\"; fi; }" 2>/dev/null
}

# A program of an environment that instructions have people make, `.venv/bin/python`: if it is not
# there, it is that of the skill, with the packages that were granted.
skillpouch_environment() {
  eval "function $1 { if [ -e '$1' ]; then command '$1' \"\$@\"; else command $2 \"\$@\"; fi; }"
}

# `source .venv/bin/activate`: where there is no environment, there is nothing to do.
skillpouch_activate() {
  case $1:${2-} in source:*/activate | .:*/activate) [ -e "$2" ] || return 0 ;; esac
  builtin "$@"
}
skillpouch_activation() {
  function source { skillpouch_activate source "$@"; }
  function . { skillpouch_activate . "$@"; }
}

# A program that only reads the files that it is given: a path that only the skill has is that of
# the skill. Of `text` the first word is a pattern or a program, of `copy` the last is written.
skillpouch_reader() {
  eval "function $1 { skillpouch_read $1 $2 \"\$@\"; }"
}
skillpouch_read() {
  local program=$1 kind=$2 words=() word found
  shift 2
  while [ $# -gt 0 ]; do
    word=$1
    shift
    case $kind:$#:$word in
      *:-*) words+=("$word") ;;
      text:*) words+=("$word") kind=files ;;
      copy:0:*) words+=("$word") ;;
      *:[!/]*/*[*?[]*)
        mapfile -t found <<<"$(builtin cd "$SKILL_BASE_DIR" && compgen -G "$word")"
        if [ -n "${found[0]}" ]; then words+=("${found[@]/#/$SKILL_BASE_DIR/}"); else words+=("$word"); fi
        ;;
      *)
        word=$(skillpouch_word "$word" && printf .)
        words+=("${word%.}")
        ;;
    esac
  done
  command "$program" "${words[@]}"
}

cd() {
  local to=${!#} path
  if [ $# -gt 0 ] && [ ! -d "$to" ] && path=$(skillpouch_found "$to") && [ -d "$path" ]; then
    builtin cd -- "$path"
  else
    builtin cd "$@"
  fi
}

command_not_found_handle() {
  local each
  for each in "$1" "scripts/$1"; do
    if [ -f "$SKILL_BASE_DIR/$each" ]; then
      skillpouch_run "$SKILL_BASE_DIR/$each" "${@:2}"
      return
    fi
  done
  printf 'bash: %s: command not found\n' "$1" >&2
  return 127
}
