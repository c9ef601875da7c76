#!/usr/bin/env bash
# Measures on a machine with a GPU what a CPU cannot show; at most 8 minutes. Run it in the checkout: benchmarks/gpu.sh [OUT]
# Each part has its own time limit, and a part that fails does not stop the others. Results go to OUT (gpu-results).
set -u
out=${1:-gpu-results}
python=${PYTHON:-python3}
mkdir -p "$out"

part() {
    local name=$1 limit=$2
    shift 2
    echo "== $name: $*" | tee "$out/$name.txt"
    timeout "$limit" "$@" >>"$out/$name.txt" 2>&1
    echo "exit status $?" | tee -a "$out/$name.txt"
}

part machine 20 nvidia-smi
part kinds 140 "$python" -m pytest -q -p no:cacheprovider tests/training/test_parallel.py -k "another_device and cuda"
part tests 60 "$python" -m pytest -q -p no:cacheprovider tests/evaluation/test_ranking.py -k cuda
part ranks 80 "$python" -m benchmarks.gpu_ranks 100000 500000
part clusters 40 "$python" -m benchmarks.gpu_clusters 200000 1000000
part steps 80 "$python" -m benchmarks --rounds 6 --only objectives training whole
part nccl 60 "$python" -m torch.distributed.run --nproc-per-node 2 -m benchmarks.gpu_processes

tail -n 3 "$out"/*.txt
