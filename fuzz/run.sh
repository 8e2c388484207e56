#!/usr/bin/env bash
# Builds the fuzz targets once and runs each for some seconds, two at a time: run.sh SECONDS [TARGET...]
# Prints a table; ends with 1 if a target found something. Stable Rust and a C++ compiler are enough.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${1:?usage: run.sh SECONDS [TARGET...]}
shift
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    for file in targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

# What `cargo fuzz` asks of LLVM, without a sanitizer, which only a nightly compiler has.
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0"
# With a target named, build scripts and macros are not instrumented.
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --locked --release --target "$host" --bins
built=target/$host/release
# A backtrace needs more memory than a target may have left.
export RUST_BACKTRACE=0

# One target; its log stays beside what it found. A timeout counts if the input takes the processor for as long: the clock
# goes on while a busy machine lets the target wait.
fuzz() {
    local target=$1 found=artifacts/$1 end=$((SECONDS + seconds)) left=$seconds timeout
    mkdir -p "$found" "found/$target" "corpus/$target"
    : >"$found/log"
    until once "$target" "$left"; do
        timeout=$(sed -n 's/.*Test unit written to \(.*timeout-.*\)/\1/p' "$found/log" | tail -n 1)
        if [ ! -e "${timeout:-none}" ] ||
            ! (ulimit -t 2 && "$built/$target" "$timeout" -timeout=60 >/dev/null 2>&1); then
            touch "$found/failed"
            return
        fi
        rm "$timeout"
        left=$((end - SECONDS))
        [ $left -gt 0 ] || return 0
    done
}

# One process of a target, for a number of seconds.
once() {
    local target=$1 found=artifacts/$1
    # New inputs go to the first folder, so that the committed corpus stays as it is.
    "$built/$target" "found/$target" "corpus/$target" -artifact_prefix="$found/" -max_total_time="$2" \
        -timeout=2 -rss_limit_mb=4096 -len_control=20 -print_final_stats=1 >>"$found/log" 2>&1
}

for target in "${targets[@]}"; do
    rm -f "artifacts/$target/failed"
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n || true; done
    fuzz "$target" &
done
wait

failed=0
printf '\n%-14s | %7s | %10s | %8s | %s\n' target seconds executions coverage findings
for target in "${targets[@]}"; do
    log=artifacts/$target/log
    executions=$(awk '/^stat::number_of_executed_units:/ { sum += $2 } END { if (sum) print sum }' "$log")
    # After a finding there are no statistics: the last progress line counts.
    executions=${executions:-$(grep -o '^#[0-9]*' "$log" | tail -n 1 | tr -d '#' || true)}
    coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d' ' -f2 || true)
    findings=0
    if [ -e "artifacts/$target/failed" ]; then findings=1 failed=1; fi
    printf '%-14s | %7s | %10s | %8s | %s\n' "$target" "$seconds" "${executions:-0}" "${coverage:-0}" "$findings"
done
for target in "${targets[@]}"; do
    if [ -e "artifacts/$target/failed" ]; then
        printf '\n== %s: %s\n' "$target" "artifacts/$target"
        grep -aE 'panicked at|^[a-z].*: |memory allocation|ERROR: libFuzzer|Test unit written' -A2 "artifacts/$target/log" | tail -n 20
    fi
done
exit "$failed"
