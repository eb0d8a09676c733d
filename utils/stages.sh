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

# step --name NAME --log FILE [SETTING VALUE]... -- COMMAND...
#   --name      what the user reads
#   --log       where the command's output goes; the marker is FILE with the ending .done
#   --input     a file that the result depends on and an earlier stage makes; may be repeated
#   --output    a file without which the step is not done, whatever its marker says; may be repeated
#   --resumes   a folder whose half-done work the command goes on with; it is refused if begun under another key. Logs of
#               earlier starts are kept in FILE with the ending .earlier.log
#   --nokey     words that do not belong to the key, split at blanks; they take the place of {} in the command
#   --prefix    words before the command, such as srun, that do not belong to the key, split at blanks
#   --progress  function that prints a short line from the log, shown at most every 10 s; by default the log's last line
# A failed command shows the end of its log, the log's path and the way on, and gives its status.
step() {
  local name='' log='' progress=step_last_line resumes='' prefix=() inputs=() outputs=() nokey=()
  while [[ $1 != -- ]]; do
    case $1 in
      --name) name=$2 ;;
      --log) log=$2 ;;
      --input) inputs+=("$2") ;;
      --output) outputs+=("$2") ;;
      --resumes) resumes=$2 ;;
      --nokey) read -ra nokey <<<"$2" ;;
      --prefix) read -ra prefix <<<"$2" ;;
      --progress) progress=$2 ;;
      *) die "step: unknown setting $1" ;;
    esac
    shift 2
  done
  shift
  local marker=${log%.log}.done key word began=$SECONDS status=0 command=("${prefix[@]+"${prefix[@]}"}")
  for word; do
    if [[ $word == '{}' ]]; then command+=("${nokey[@]+"${nokey[@]}"}"); else command+=("$word"); fi
  done
  for word in "${inputs[@]+"${inputs[@]}"}"; do
    [[ -r $word ]] || die "$name: $word is missing: run the earlier stages first"
  done
  key=$(step_key "$@" "${inputs[@]+"${inputs[@]}"}")
  if step_is_done; then
    say "$name: done before"
    return 0
  fi
  mkdir -p "${log%/*}" || step_cannot_write "$log"
  # The command holds the lock too: one that outlived a killed run.sh is not joined by a second one.
  exec {lock}>"${log%.log}.lock"
  step_wait_for_lock
  if step_is_done; then
    exec {lock}>&-
    say "$name: done by another run"
    return 0
  fi
  if [[ -n $resumes ]]; then
    step_claim "$resumes"
    # what it did before it was killed, such as a training's first epochs
    [[ ! -s $log ]] || cat "$log" >>"${log%.log}.earlier.log"
  fi
  rm -f "$marker"
  {
    printf '# %s\n#' "$(date -u +%FT%TZ)"
    printf ' %q' "${command[@]}"
    printf '\n'
  } >"$log" || step_cannot_write "$log"
  step_run "${command[@]}" || status=$?
  if ((status != 0)); then
    exec {lock}>&-
    step_failed "$name" "$log" "$status" >&2
    return "$status"
  fi
  { printf '%s\n' "$key" >"$marker.new" && mv "$marker.new" "$marker"; } || step_cannot_write "$marker"
  exec {lock}>&-
  say "$name: done in $((SECONDS - began)) s"
}

# Does the calling step's marker hold its key, with all its outputs in place?
step_is_done() {
  local file
  [[ -f $marker && $(<"$marker") == "$key" ]] || return 1
  for file in "${outputs[@]+"${outputs[@]}"}"; do [[ -e $file ]] || return 1; done
}

step_wait_for_lock() {
  local got=0
  flock -n -E 75 "$lock" || got=$?
  if ((got == 75)); then
    say "$name: another process is at work on it, waiting for it to end"
    while ((got == 75)); do
      got=0
      flock -w 10 -E 75 "$lock" || got=$?
      ((got != 75)) || say "$name: still waiting ($((SECONDS - began)) s)"
    done
  fi
  ((got == 0)) || say "$name: this file system has no locks: see to it that no second run works here"
}

# Note under which key a folder's work is begun; refuse a folder that was begun under another.
step_claim() {
  local note=$1/.key
  if [[ -f $note && $(<"$note") != "$key" ]]; then
    die "$name: $1 was begun with another config or other data; remove it (rm -r $1) or give another --expdir"
  fi
  mkdir -p "$1"
  { printf '%s\n' "$key" >"$note.new" && mv "$note.new" "$note"; } || step_cannot_write "$note"
}

# Run a command into the log of the calling step with a sign of life every 10 s. It has a process group of its own, which a
# watcher kills when this script is gone, however it went: what the command has started dies too.
step_run() {
  local pid last=$SECONDS text status=0
  setsid "$@" >>"$log" 2>&1 </dev/null &
  pid=$!
  # not a child of this shell, or run_jobs would take its end for a job's
  (step_watch "$pid" >/dev/null 2>&1 </dev/null {lock}>&- &)
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - last >= 10)); then
      last=$SECONDS
      text=$("$progress" "$log") || text=''
      say "$name: $((SECONDS - began)) s${text:+, $text}"
    fi
  done
  wait "$pid" || status=$?
  return "$status"
}

# Kill a command's process group once this script is gone.
step_watch() {
  trap '' INT TERM HUP
  while kill -0 "$$" && kill -0 "$1"; do sleep 0.3; done
  kill -0 "$$" || kill -KILL -- "-$1"
}

# The last line of a log, as progress; the command itself, on the log's first lines, is none.
step_last_line() { tail -c 4000 "$1" | tr '\r' '\n' | grep -v '^#\|^\s*$' | tail -n 1 | cut -c 1-120; }

# The hash of the arguments, of which those that are files count by their content as well, but for what the calling step writes.
step_key() {
  local argument
  {
    printf '%s\0' "$@"
    for argument in "$@"; do
      argument=${argument##*=}
      argument=${argument%%,*}
      if [[ -f $argument ]] && ! step_writes "$argument"; then sha256sum <"$argument"; fi
    done
  } | sha256sum | cut -d ' ' -f 1
}

step_writes() {
  local file
  for file in "${outputs[@]+"${outputs[@]}"}"; do
    if [[ $file == "$1" ]]; then return 0; fi
  done
  return 1
}

# Is there next to nothing left on the disk of a file?
disk_is_full() {
  local left
  left=$(df --output=avail -k "${1%/*}" 2>/dev/null | tail -n 1)
  [[ $left =~ [0-9] ]] && ((left < 256))
}

# End the script, or its job, because a file of the calling step cannot be written.
step_cannot_write() {
  if disk_is_full "$1"; then
    die "$name: cannot write $1: the disk of ${1%/*} is full: make room and run the same command again"
  fi
  die "$name: cannot write $1: see to it that you may write there"
}

step_failed() {
  printf '\n%s: failed with status %s. The end of its log:\n' "$1" "$3"
  # all of an error, however long its paths are; of other lines the beginning
  grep -v '^\s*$' "$2" | tail -n 15 | awk '{ print "   | " (/^error: / ? $0 : substr($0, 1, 300)) }'
  if disk_is_full "$2" || grep -qi 'no space left on device\|disk quota exceeded' "$2"; then
    printf '   the disk of %s is full: make room first\n' "${2%/*}"
  fi
  printf '   log:  %s\n   then: mend the cause and run the same command again; what is done is not repeated.\n\n' "$2"
}

# Run a function for each of several jobs, at most $1 at a time; job arguments are lines on standard input, split at tabs.
# Succeeds if all did; a failure starts no further job. Give the lines by `<<<"$(...)"`: in a pipe, the jobs would outlive
# the script, and `< <(...)` is one more process that `wait -n` would take for a job. `set -e` does not hold inside the
# function, so that each of its commands needs its `|| return 1`.
run_jobs() {
  local limit=$1 function=$2 failed=0 running=0 fields line lines=()
  mapfile -t lines
  for line in "${lines[@]+"${lines[@]}"}"; do
    [[ -n $line ]] || continue
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
