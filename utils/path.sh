# shellcheck shell=bash
# Puts the commands of tools/venv on PATH, and unsets what may be active in a shell and could change results. The path.sh of
# each recipe sources it.
unset CDPATH # with it, cd may print where it went, or go elsewhere
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
python=$root/tools/venv/bin/python
if [[ ! -x $python ]]; then
  echo "${0##*/}: error: $python is missing; run 'make -C $root/tools install' first" >&2
  exit 1
fi
# Without bytecode every start takes twice as long.
unset PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME VIRTUAL_ENV
# An environment that was installed for another clone, as one that is linked, imports that clone's package; this one goes first.
if [[ $(head -n 1 "$root/tools/venv/.installed" 2>/dev/null) != "$root/tools/venv" ]]; then
  export PYTHONPATH=$root
fi
export PYTHONUNBUFFERED=1 LC_ALL=C.UTF-8 PATH=$root/tools/venv/bin:$PATH
# One thread per process: several processes run in parallel, and sums do not depend on the number of threads.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
# With AVX-512 torch, oneDNN and MKL round otherwise than with AVX2. With the kernels for AVX2, processors of both kinds
# give the same numbers (docs/reproducibility.md). CPU_INSTRUCTIONS=all lifts that, for bfloat16 where a processor has it.
if [[ ${CPU_INSTRUCTIONS:=avx2} != @(avx2|all) ]]; then
  echo "${0##*/}: error: CPU_INSTRUCTIONS is $CPU_INSTRUCTIONS: set it to avx2 or to all" >&2
  exit 1
fi
export CPU_INSTRUCTIONS
if [[ $CPU_INSTRUCTIONS == avx2 ]] && grep -qsw avx2 /proc/cpuinfo; then
  export ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2
fi
