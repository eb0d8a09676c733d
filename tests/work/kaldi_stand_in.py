"""Programs that keep to the contract of Kaldi's ``run.pl`` and ``queue.pl``, as
:mod:`espnet_ext.work.launch` describes it.
"""

from pathlib import Path

# Each call is noted beside the program. The log is opened before anything is known of
# the command, as Kaldi's do: what is given as the log is lost.
WRAPPER = r"""#!/bin/bash
name=$(basename "$0") jobname= first=1 last=1
note=$(dirname "$0")/$name.calls
for round in 1 2; do
  while (($# >= 2)) && [[ $1 == -* ]]; do
    switch=$1 && shift
    [[ $switch == -V ]] || shift
    [[ $switch != -pe ]] || shift
  done
  if [[ $1 =~ ^([A-Za-z_][A-Za-z0-9_]*)=([0-9]+):([0-9]+)$ ]]; then
    jobname=${BASH_REMATCH[1]} first=${BASH_REMATCH[2]} last=${BASH_REMATCH[3]}
    shift
  fi
done
usage="Usage: $name [options] [JOB=1:n] log-file command..."
(($# >= 2)) || { echo "$usage" >&2; exit 1; }
log=$1 && shift
printf '%s %s %s\n' "$jobname=$first:$last" "$log" "$*" >> "$note"
if [[ -n $jobname && $last -gt $first && $log != *"$jobname"* ]]; then
  echo "$name: you are putting the output into just one log file ($log)" >&2
  exit 1
fi
command=
for word in "$@"; do
  if [[ $word =~ ^[^[:space:]]+$ ]]; then command+="$word "
  elif [[ $word == *'"'* ]]; then command+="'$word' "
  else command+="\"$word\" "; fi
done
here=$PWD status=0
run_job() {
  local own_log=$log own=$command
  [[ -z $jobname ]] || own_log=${log//$jobname/$1} own=${command//$jobname/$1}
  mkdir -p "$(dirname "$own_log")"
  {
    QUEUED
    echo "echo -n '# '; cat <<EOF"
    echo "$own"
    echo EOF
    echo "( $own ) 2>>$own_log >>$own_log"
  } > "$(dirname "$0")/$name.$$.$1.sh"
  echo "# Started" > "$own_log"
  (cd / && START bash "$(dirname "$0")/$name.$$.$1.sh") >> "$own_log"
  local ended=$?
  echo "# Finished with status $ended" >> "$own_log"
  return $((ended != 0))
}
pids=()
for ((job = first; job <= last; job++)); do run_job $job & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid" || status=1; done
((status == 0)) || echo "$name: job failed, log is in $log" >&2
exit $status
"""


def write_wrapper(folder: Path, name: str = "queue.pl") -> Path:
    """Write a wrapper of a name; all but ``run.pl`` start jobs with little of the
    environment, in a folder to which they go by a line of bash.
    """
    away = name != "run.pl"
    queued = 'echo "cd $here"; echo "[ ! -f path.sh ] || . ./path.sh"'
    text = WRAPPER.replace("QUEUED", queued if away else "echo \"cd '$here'\"")
    text = text.replace("START", 'env -i PATH="$PATH" HOME="$HOME"' if away else "")
    path = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def read_calls(wrapper: Path) -> list[str]:
    """Return what a wrapper was called with: a line of jobs, log and command each."""
    calls = wrapper.with_name(f"{wrapper.name}.calls")
    return calls.read_text().splitlines() if calls.is_file() else []
