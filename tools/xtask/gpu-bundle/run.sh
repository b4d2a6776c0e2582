#!/usr/bin/env bash
# Runs this bundle on a machine that has an NVIDIA GPU, bash, and nothing else of ours.
#
#   ./run.sh tests    [name...]   the device tests of all crates, all tiers
#   ./run.sh sanitize FOLDER [--seconds N] [--jobs N] [--tool T]...
#                                 the GPU tests under compute-sanitizer's four tools; goes on from the
#                                 results that an earlier run has left in FOLDER
#   ./run.sh examples [name...]   the examples
#   ./run.sh runtime              programs of nvcc with NVIDIA's runtime and with ours: needs nvcc
#   ./run.sh bench    [args...]   the benchmarks: JSON lines on standard output
#   ./run.sh generated [N]        N generated programs, 100,000 unless said otherwise, on the GPU and on
#                                 the software device
#
# Ends with "N passed, N failed, N not run" (not run: tiers, examples or runs, each listed before
# with its reason). Exit status: 0 if nothing failed and all that can run here did run.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
tests=$here/bin/integration-tests
# The nvrtc crate looks here first, so that the kernels are compiled by the version tested.
export CUDA_NVRTC=${CUDA_NVRTC:-$here/lib/libnvrtc.so.13}
export TEST_NVRTC=${TEST_NVRTC:-$CUDA_NVRTC}
# The program has the device tests of all crates, which elsewhere are a program each.
export TEST_EVERY_CRATE=1

passed=0
failed=0
not_run=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

has_gpu() {
    case ${CUDA_VISIBLE_DEVICES-0} in '' | -*) return 1 ;; esac
    compgen -G '/dev/nvidia[0-9]*' >/dev/null || [ -e /dev/dxg ] || nvidia-smi -L >/dev/null 2>&1
}

fail() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# number FIELD TEXT: the value of a number in one tier's part of a report.
number() {
    local value
    value=$(sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" <<<"$2")
    echo "${value:-0}"
}

# read_report FILE STATUS TIER...: adds up a report of the test program. Every TIER must have run.
read_report() {
    local report=$1 status=$2 tier name reason bad=0 seen=' '
    shift 2
    if [ ! -s "$report" ]; then
        fail "the test program left no report (exit status $status)"
        return
    fi
    # One line for each tier.
    while IFS= read -r tier || [ -n "$tier" ]; do
        name=$(sed -n 's/.*"tier":"\([^"]*\)".*/\1/p' <<<"$tier")
        [ -n "$name" ] || continue
        reason=$(sed -n 's/.*"not_run":"\([^"]*\).*/\1/p' <<<"$tier")
        if [ -n "$reason" ]; then
            echo "$name: not run: $reason"
            not_run=$((not_run + 1))
            continue
        fi
        echo "$name: $(number passed "$tier") passed, $(number failed "$tier") failed"
        passed=$((passed + $(number passed "$tier")))
        bad=$((bad + $(number failed "$tier")))
        [ "$(number ran "$tier")" -gt 0 ] && seen="$seen$name "
    done < <(sed 's/{"tier"/\n{"tier"/g' "$report")
    failed=$((failed + bad))
    if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        fail "exit status $status without a failed test"
    fi
    for tier in "$@"; do
        case $seen in *" $tier "*) ;; *) fail "tier $tier can run here and has run no test" ;; esac
    done
}

finish() {
    echo "$passed passed, $failed failed, $not_run not run"
    [ "$failed" -eq 0 ]
    exit
}

run_tests() {
    local required=()
    # With names given, a tier may rightly have nothing to run.
    if [ $# -eq 0 ]; then
        required=(host compile emu)
        has_gpu && required+=(gpu)
    fi
    TEST_REPORT=$work/report.json "$tests" "$@"
    read_report "$work/report.json" $? "${required[@]+"${required[@]}"}"
    finish
}

run_examples() {
    local example name status
    for example in "$here"/examples/*; do
        name=${example##*/}
        if [ $# -gt 0 ]; then
            case " $* " in *" $name "*) ;; *) continue ;; esac
        fi
        echo "== $name"
        "$example" </dev/null
        status=$?
        case $status in
        0)
            echo "$name: passed"
            passed=$((passed + 1))
            ;;
        3)
            if has_gpu; then
                fail "$name: found no device, and there is one"
            else
                echo "$name: not run: there is no device here"
                not_run=$((not_run + 1))
            fi
            ;;
        *) fail "$name: exit status $status" ;;
        esac
    done
    if [ $((passed + failed + not_run)) -eq 0 ]; then
        fail "no example is named: $*"
    fi
    finish
}

mode=${1-}
[ $# -gt 0 ] && shift
case $mode in
tests) run_tests "$@" ;;
sanitize) "$tests" --sanitize "${@:-$here/sanitize}" ;;
examples) run_examples "$@" ;;
runtime) "$here/runtime.sh" ;;
bench) "$here/bin/bench" "$@" ;;
generated) "$tests" --generated "${@:-100000}" ;;
*)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
