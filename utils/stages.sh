# shellcheck shell=bash
# Numbered stages of steps that are skipped when done and can be killed and run again. Source it after parse_options.sh;
# it reads the settings `stage` and `stop_stage`.
#
#   if stage 6 "Training"; then
#     step --name train-baseline --log exp/x/log/train.log --input exp/x/train.yaml -- python -m ... || exit 1
#   fi
#
# A step is done when its marker, written last, holds the key of this very call: the hash of its command and of its input
# files. Words of the command that change nothing in its result, such as the number of jobs, are left out of the key.

: "${stage:=1}" "${stop_stage:=100}"

# Print the stage's heading and succeed if it is to be run.
stage() {
  ((stage <= $1 && $1 <= stop_stage)) || return 1
  printf '\n== Stage %s: %s\n' "$1" "$2"
}

# Print one line of progress or of a result, indented under its stage.
say() { printf '   %s\n' "$*"; }

# Print an error in one line and end the script.
die() {
  printf '%s: error: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# step --name NAME --log FILE [--input FILE]... [--nokey "WORDS"] [--progress FUNCTION] -- COMMAND...
#   --name      what the user reads
#   --log       where the command's output goes; the marker is FILE with the ending .done
#   --input     a file that the result depends on; may be repeated
#   --nokey     words that do not belong to the key, split at blanks; they take the place of {} in the command
#   --progress  function that prints a short line from the log, shown at most every 10 s; by default the log's last line
# A failed command shows the end of its log, the log's path and the way on, and gives its status.
step() {
  local name='' log='' progress=step_last_line inputs=() nokey=()
  while [[ $1 != -- ]]; do
    case $1 in
      --name) name=$2 ;;
      --log) log=$2 ;;
      --input) inputs+=("$2") ;;
      --nokey) read -ra nokey <<<"$2" ;;
      --progress) progress=$2 ;;
      *) die "step: unknown setting $1" ;;
    esac
    shift 2
  done
  shift
  local marker=${log%.log}.done key word command=()
  for word; do
    if [[ $word == '{}' ]]; then command+=("${nokey[@]+"${nokey[@]}"}"); else command+=("$word"); fi
  done
  key=$(step_key "$@" "${inputs[@]+"${inputs[@]}"}") || die "$name: cannot read its inputs"
  if [[ -f $marker && $(<"$marker") == "$key" ]]; then
    say "$name: done before"
    return 0
  fi
  mkdir -p "${log%/*}"
  local began=$SECONDS status=0
  # The lock is held by the command itself too: one that outlived a killed run.sh is not joined by a second one.
  exec {lock}>"${log%.log}.lock"
  if ! flock -n "$lock"; then
    say "$name: another process is at work on it, waiting for it to end"
    while ! flock -w 10 "$lock"; do say "$name: still waiting ($((SECONDS - began)) s)"; done
  fi
  rm -f "$marker"
  {
    printf '# %s\n#' "$(date -u +%FT%TZ)"
    printf ' %q' "${command[@]}"
    printf '\n'
  } >"$log"
  step_run "${command[@]}" || status=$?
  exec {lock}>&-
  if ((status != 0)); then
    step_failed "$name" "$log" "$status" >&2
    return "$status"
  fi
  printf '%s\n' "$key" >"$marker.new" && mv "$marker.new" "$marker"
  say "$name: done in $((SECONDS - began)) s"
}

# Run a command into the log of the calling step with a sign of life every 10 s. It dies with this script where Linux can see to that.
step_run() {
  local guard=() pid last=$SECONDS text
  command -v setpriv >/dev/null && guard=(setpriv --pdeathsig KILL --)
  "${guard[@]+"${guard[@]}"}" "$@" >>"$log" 2>&1 </dev/null &
  pid=$!
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - last >= 10)); then
      last=$SECONDS
      text=$("$progress" "$log")
      say "$name: $((SECONDS - began)) s${text:+, $text}"
    fi
  done
  trap - INT TERM
  wait "$pid"
}

# The last line of a log, as progress.
step_last_line() { tail -c 4000 "$1" | tr '\r' '\n' | grep -v '^\s*$' | tail -n 1 | cut -c 1-120; }

# The hash of the arguments, of which those that are files count by their content as well.
step_key() {
  local argument
  {
    printf '%s\0' "$@"
    for argument in "$@"; do
      argument=${argument##*=}
      argument=${argument%%,*}
      if [[ -f $argument ]]; then sha256sum <"$argument"; fi
    done
  } | sha256sum | cut -d ' ' -f 1
}

step_failed() {
  printf '\n%s: failed with status %s. The end of its log:\n' "$1" "$3"
  grep -v '^\s*$' "$2" | tail -n 15 | cut -c 1-300 | sed 's/^/   | /'
  printf '   log:  %s\n   then: mend the cause and run the same command again; what is done is not repeated.\n\n' "$2"
}

# Run a function for each of several jobs, at most $1 at a time; job arguments are lines on standard input, split at tabs.
# Succeeds if all did; a failure starts no further job.
run_jobs() {
  local limit=$1 function=$2 failed=0 running=0 fields line lines=()
  mapfile -t lines
  for line in "${lines[@]+"${lines[@]}"}"; do
    if ((running >= limit)); then
      wait -n || failed=1
      running=$((running - 1))
    fi
    ((failed == 0)) || break
    IFS=$'\t' read -ra fields <<<"$line"
    if ((limit == 1)); then
      "$function" "${fields[@]}" || return 1
    else
      "$function" "${fields[@]}" &
      running=$((running + 1))
    fi
  done
  while ((running > 0)); do
    wait -n || failed=1
    running=$((running - 1))
  done
  return "$failed"
}
