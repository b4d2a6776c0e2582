#!/usr/bin/env bash
# Runs the programs of nvcc on a machine that has an NVIDIA GPU and nvcc: each program, as one binary, with NVIDIA's runtime
# and with this project's. Both must pass and print the same; with this project's, a planted mistake must be noticed.
# Then the cost of a launch with each. The programs lie in `nvcc`, the libraries in `lib`.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
nvcc=${NVCC:-nvcc}
theirs=$(dirname "$(command -v "$nvcc")")/../targets/x86_64-linux/lib
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
fail() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# build OUTPUT OPTION... FILE...: FILE's first line can have options.
build() {
    local output=$1 first
    shift
    first=$(sed -n '1s/^\/\/ nvcc: //p' "${!#}")
    # shellcheck disable=SC2086
    "$nvcc" -std=c++17 -arch=native -cudart shared -o "$output" $first "$@"
}

# run OUTPUT FOLDER PLANTED PROGRAM: within 60 s.
run() {
    PLANTED=$3 LD_LIBRARY_PATH=$2 timeout 60 "$4" >"$1" 2>&1 </dev/null
}

# listed NAME: a list has the output of ours, and where NVIDIA's is another.
listed() {
    local list=$here/nvcc/$1.txt
    {
        sed 's/  (NVIDIA: .*//' "$list" | diff - "$work/ours"
        sed 's/: [^ ]*  (NVIDIA: \(.*\))$/: \1/' "$list" | diff - "$work/theirs"
    } >"$work/listed"
    [ ! -s "$work/listed" ]
}

compare() {
    local name=$1 program=$2
    run "$work/theirs" "$theirs" 0 "$program" || fail "$name: NVIDIA's runtime: $(tail -3 "$work/theirs")"
    if ! run "$work/ours" "$here/lib" 0 "$program"; then
        fail "$name: $(tail -3 "$work/ours")"
    elif [ -e "$here/nvcc/$name.txt" ] && ! listed "$name"; then
        fail "$name: not as listed: $(cat "$work/listed")"
    elif [ ! -e "$here/nvcc/$name.txt" ] && ! cmp "$work/theirs" "$work/ours"; then
        fail "$name: other output: $(diff "$work/theirs" "$work/ours" | head -5)"
    elif [ ! -e "$here/nvcc/$name.txt" ] && run "$work/ours" "$here/lib" 1 "$program"; then
        fail "$name: the planted mistake was not noticed"
    else
        passed=$((passed + 1))
    fi
}

for source in "$here"/nvcc/*.cu; do
    name=$(basename "$source" .cu)
    { build "$work/$name" "$source" 2>"$work/$name.log" || echo "$name" >>"$work/unbuilt"; } &
    while [ "$(jobs -rp | wc -l)" -ge 12 ]; do wait -n; done
done
for which in 1 2; do
    build "$work/plugin$which.so" "-DWHICH=$which" "$here/nvcc/plugins/plugin.cu" &
done
build "$work/main" -ldl "$here/nvcc/plugins/main.cu" &
"$nvcc" -std=c++17 -arch=native -cudart shared -rdc=true -o "$work/linked" "$here"/nvcc/linked/{main,other}.cu &
wait
for source in "$here"/nvcc/*.cu; do
    name=$(basename "$source" .cu)
    if grep -qx "$name" "$work/unbuilt" 2>/dev/null; then
        fail "$name: not built: $(tail -3 "$work/$name.log")"
    else
        compare "$name" "$work/$name"
    fi
done
compare plugins "$work/main"
compare linked "$work/linked"

build "$work/overhead" "$here/overhead.cu"
for _ in 1 2 3; do
    for which in theirs ours; do
        folder=$here/lib
        [ $which = theirs ] && folder=$theirs
        echo "launch, $which: $(LD_LIBRARY_PATH=$folder "$work/overhead")"
    done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
