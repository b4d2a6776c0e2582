#!/usr/bin/env bash
# Runs this bundle on a machine that has an NVIDIA GPU, bash, and nothing else of ours.
#
#   ./run.sh tests    [name...]   the integration tests, all tiers
#   ./run.sh sanitize [name...]   the GPU tests under compute-sanitizer's four tools
#   ./run.sh examples [name...]   the examples
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

# checked TITLE TOOL OPTIONS... -- TEST-OPTIONS...: the tests under a tool of the sanitizer.
checked() {
    local title=$1 tool=$2 options=() status summary
    shift 2
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    echo
    echo "== $title: compute-sanitizer --tool $tool ${options[*]}"
    rm -f "$work/report.json" "$work/log"
    # One thread: the tools serialise the launches anyway, and their reports name the test that ran.
    # Not the generated programs: they are about instructions, `bar.arrive` (see below) among them, and
    # there are a thousand of them to patch.
    TEST_REPORT=$work/report.json compute-sanitizer --tool "$tool" --error-exitcode 9 \
        --check-exit-code no --log-file "$work/log" "${options[@]}" \
        "$tests" --tier gpu --test-threads 1 --skip generated:: "$@"
    status=$?
    cat "$work/log"
    summary=$(grep -c 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$work/log")
    if [ "$status" -eq 9 ] || [ "$summary" -eq 0 ]; then
        fail "$title: $tool found errors"
        # That is told now; the tests' own results are in their report.
        status=0
    fi
    read_report "$work/report.json" "$status" "${required[@]+"${required[@]}"}"
    if grep -q '"launches":' "$work/report.json" 2>/dev/null; then
        echo "$title: $(number launches "$(cat "$work/report.json")") launches under the sanitizer"
    else
        echo "$title: launches under the sanitizer: not counted"
    fi
}

run_sanitize() {
    local required=()
    [ $# -eq 0 ] && required=(gpu)
    if ! command -v compute-sanitizer >/dev/null; then
        PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
    fi
    if ! command -v compute-sanitizer >/dev/null; then
        echo "sanitize: not run: compute-sanitizer is not installed"
        not_run=5
        finish
    fi
    if ! has_gpu; then
        echo "sanitize: not run: there is no NVIDIA GPU here"
        not_run=5
        finish
    fi
    compute-sanitizer --version
    checked 'tests' memcheck --leak-check full -- --faults skip "$@"
    # It doesn't follow `bar.arrive`, which a kernel of these goldens is about, and sees races there.
    checked 'tests' racecheck -- --faults skip --skip golden::block "$@"
    for tool in initcheck synccheck; do
        checked 'tests' "$tool" -- --faults skip "$@"
    done
    # These make calls fail on purpose, so failed calls are not reported; what a fatal fault leaves
    # behind cannot be freed, so leaks are not; and the child processes in which kernels fault on
    # purpose are not followed.
    echo
    echo '== the fault tests'
    "$tests" --tier gpu --faults only --list
    checked 'fault tests' memcheck --report-api-errors no --target-processes application-only \
        -- --faults only "$@"
    echo
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
sanitize) run_sanitize "$@" ;;
examples) run_examples "$@" ;;
bench) "$here/bin/bench" "$@" ;;
generated) "$tests" --generated "${@:-100000}" ;;
*)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
