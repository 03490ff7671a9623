# Questions about this machine that several scripts ask. Sourced, never run.
# shellcheck shell=bash disable=SC2034

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv   # all that is not from the distribution; git ignores it

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

has_gpu() {
  [[ -d /proc/driver/nvidia/gpus ]] || { command -v nvidia-smi && nvidia-smi -L; } >/dev/null 2>&1
}

# The C, C++ and CUDA files of the checkout, new ones included, one a line.
c_sources() {
  git -C "$root" ls-files -co --exclude-standard -- '*.c' '*.h' '*.cpp' '*.hpp' '*.cu' '*.cuh'
}

# The nvcc of an installed toolkit 13.x, if there is one.
installed_nvcc() {
  local nvcc
  for nvcc in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    if [[ -x $nvcc ]] && "$nvcc" --version | grep -q 'release 13\.'; then
      echo "$nvcc"
      return
    fi
  done
  return 1
}

# Whether to build the CUDA half: SLUICE_CUDA=ON or OFF decides, else whether there is a GPU.
wants_cuda() {
  case ${SLUICE_CUDA:-AUTO} in
    ON) true ;;
    OFF) false ;;
    AUTO) has_gpu ;;
    *) echo "SLUICE_CUDA is '$SLUICE_CUDA', want ON, OFF or AUTO" >&2; exit 2 ;;
  esac
}
